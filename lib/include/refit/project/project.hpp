// What a refit would take on hardware that is not here: a discrete-event replay of its plan.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "refit/model/inventory.hpp"
#include "refit/project/platform.hpp"
#include "refit/project/stack.hpp"
#include "refit/scenario/scenario.hpp"

namespace refit::project {

inline constexpr std::string_view kProjectionSchema = "refit-projection/1";

/// Seconds of one timer of NeMo-RL, with the interval that the leave-out errors give it.
struct Seconds {
  double s = 0;
  std::optional<double> low_s, high_s;  ///< nothing: nobody published anything to judge it by
};

struct ProjectedArm {
  plan::Switches switches;
  Seconds transfer;                        ///< prepare_for_generation/transfer_and_update_weights
  Seconds prepare;                         ///< prepare_for_generation/total
  double reference_swap_s = 0;             ///< part of policy_and_reference_logprobs
  std::optional<Seconds> step;             ///< total_step_time, its other phases as published
  std::map<std::string, double> critical;  ///< seconds of the transfer by what they are spent on
  std::optional<std::uint32_t> slowest_rank;
  std::uint64_t buckets = 0;  ///< or rounds
  double floor_s = 0;         ///< of the busiest rank: memory or links, whichever takes longer
};

struct Projection {
  Platform platform;
  Stack stack;
  std::string cluster;               ///< "tp=2,pp=4,.. to tp=8,dp=8, 64 processes"
  std::vector<std::string> assumed;  ///< sentences
  ProjectedArm control, treatment;
};

/// A scenario's plans, counted once: replayed on any platform and stack.
class Projector {
 public:
  enum class Arms : std::uint8_t { both, control };
  /// `scenario` outlives it. `peer`: whether ranks reach each other's memory, else they send
  /// messages; nothing: pipeline=direct does where one NVLink domain holds all ranks, staged does not.
  /// Error(input): what plans refuse.
  Projector(const scenario::Scenario& scenario, const model::Inventory& model, const Platform& platform,
            const Stack& stack, std::optional<bool> peer = std::nullopt, Arms arms = Arms::both);
  ~Projector();
  Projector(Projector&&) noexcept;

  /// With the figures of these, which have the platform's domains and the stack's way of exporting.
  [[nodiscard]] Projection run(const Platform& platform, const Stack& stack) const;
  [[nodiscard]] ProjectedArm arm(bool control, const Platform& platform, const Stack& stack) const;
  /// Sentences: what of its ranks and bytes nobody published.
  [[nodiscard]] const std::vector<std::string>& assumed() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] Projection project(const scenario::Scenario& scenario, const model::Inventory& model,
                                 const Platform& platform, const Stack& stack);

/// refit-projection/1, one object, ending in a newline.
[[nodiscard]] std::string to_json(const Projection& projection, const scenario::Scenario& scenario);
/// A table: off, on, change for every phase, then where the time goes.
[[nodiscard]] std::string to_text(const Projection& projection, const scenario::Scenario& scenario);

}  // namespace refit::project
