// Everything that is said of a plan of many ranks, as one value: JSON of schema refit-plan/1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "refit/reshard/places.hpp"
#include "refit/reshard/summary.hpp"

namespace refit::reshard {

inline constexpr std::string_view kPlanSchema = "refit-plan/1";

[[nodiscard]] std::string_view name_of(Form form) noexcept;  ///< "as-is", "quantized", "quantized-late"
[[nodiscard]] std::string_view name_of(Link link) noexcept;  ///< "process", "host", "network", "unknown"
[[nodiscard]] std::string_view name_of(TrainerForm form) noexcept;  ///< "megatron", "hf"
[[nodiscard]] std::optional<TrainerForm> parse_trainer_form(std::string_view name) noexcept;

struct Report {
  std::string name;  ///< of the model or scenario
  std::uint64_t tensors = 0, quantized_tensors = 0, bytes = 0;
  Parallelism trainer, generator;
  TrainerForm trainer_form = TrainerForm::megatron;
  Reshard plan;
  Summary summary;
  std::vector<std::string> notes;  ///< the plan's, and those of the one who asked
  struct Rank {
    std::uint32_t rank = 0;
    std::vector<Peer> receivers, senders;
  };
  std::optional<Rank> rank;  ///< one rank's peers
  struct Explained {
    std::string tensor;
    std::vector<PlacedTransfer> segments;
  };
  std::optional<Explained> explained;  ///< one tensor's transfers
};

[[nodiscard]] std::string to_json(const Report& report);

}  // namespace refit::reshard
