// Choosing the part of a model that fits a memory budget, whoever counts the memory. Everything is measured
// on plans, before any tensor exists.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "refit/scenario/replay.hpp"

namespace refit::scenario {

class Chooser {
 public:
  Chooser(const Scenario& scenario, const model::Inventory& model, const ReplayRequest& request);
  Chooser(const Chooser&) = delete;
  Chooser& operator=(const Chooser&) = delete;
  virtual ~Chooser() = default;

  [[nodiscard]] Replay choose() const;

 protected:
  /// Bytes that a run of this spec holds, to compare with the budget.
  [[nodiscard]] virtual std::uint64_t memory_needed(const run::BenchSpec& spec) const = 0;
  /// Sources, destinations, memory and both arms of a run of this spec.
  virtual void add_costs(const run::BenchSpec& spec, Amounts& amounts) const = 0;
  /// The largest part within the budget, or refuse_budget().
  [[nodiscard]] virtual model::Slice choose_slice() const = 0;
  /// What runs it, in the sentence that says what is replayed and in refusals: " on 4 ranks", or nothing.
  [[nodiscard]] virtual std::string runner() const = 0;
  /// Whose memory the budget is, in refusals: "in both processes together".
  [[nodiscard]] virtual std::string holders() const = 0;

  [[nodiscard]] bool fits(const model::Slice& part) const { return memory_needed(spec_of(part)) <= budget_; }
  /// The largest n in [low, high] for which `fits`, or 0. A larger n never fits where a smaller one does not.
  [[nodiscard]] static std::uint64_t largest(std::uint64_t low, std::uint64_t high,
                                             const std::function<bool(std::uint64_t)>& fits);
  /// A slice that keeps everything is the whole model.
  [[nodiscard]] model::Slice normal(model::Slice part) const;
  /// Of each class of layers two, where it has two.
  [[nodiscard]] std::uint64_t fewest_layers() const;
  [[noreturn]] void refuse_budget(const model::Slice& smallest) const;

  const Scenario& scenario_;
  const model::Inventory& model_;
  const ReplayRequest& request_;

 private:
  void check_request() const;
  [[nodiscard]] run::BenchSpec spec_of(const model::Slice& part) const;
  [[nodiscard]] std::string layers_and_experts(const model::Inventory& part) const;
  [[nodiscard]] std::string sentence(const Replay& replay) const;
  [[nodiscard]] Amounts amounts(const run::BenchSpec& spec) const;

  std::uint64_t budget_ = 0, row_bytes_ = 0, model_bytes_ = 0;
};

}  // namespace refit::scenario
