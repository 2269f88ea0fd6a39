// What is counted of a plan, and which transfers of it are kept.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "reshard/sweep.hpp"
#include "reshard/words.hpp"

namespace refit::reshard {

/// Fills in a plan while its transfers go by.
class Totals final : public Visitor {
 public:
  Totals(const Problem& problem, std::optional<std::uint32_t> trainer_rank,
         std::optional<std::uint32_t> generator_rank);
  void visit(const Move& move) override;
  /// The plan, once all have gone by.
  [[nodiscard]] Reshard finish(const Swept& swept);

 private:
  void count_message(const Transfer& transfer);
  [[nodiscard]] std::string late_note() const;

  static constexpr std::uint32_t kNoRound = std::numeric_limits<std::uint32_t>::max();
  const Problem& problem_;
  const std::optional<std::uint32_t> trainer_rank_, generator_rank_;
  Reshard plan_;
  WordDigest digest_;
  std::vector<std::uint32_t> last_rounds_;  ///< [trainer rank][generator rank] of the pair's last message
  std::vector<bool> late_;                  ///< of each tensor
};

}  // namespace refit::reshard
