// How many ranks one side has and how they divide a model between them: "tp=2,pp=8,ep=32".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace refit::reshard {

enum class Side : std::uint8_t { trainer, generator };

/// Sizes, all at least 1 once resolved. Ranks count as Megatron-Core's default order "tp-ep-dp-pp" and vLLM's
/// do: tensor-parallel neighbours are adjacent, pipeline stages outermost.
///   dense weights:  rank = tp_rank + tp * (dp_rank + dp * pp_rank)
///   experts:        rank = etp_rank + etp * (ep_rank + ep * (edp_rank + edp * pp_rank)),  edp = tp * dp /
///   (etp * ep)
struct Parallelism {
  std::uint32_t tp = 1, pp = 1, dp = 1;
  std::uint32_t ep = 1;   ///< ranks that divide the experts of a layer
  std::uint32_t etp = 1;  ///< ranks that divide one expert's width
  /// FSDP (dim-0 sharding as FSDP2 does it, torch.chunk): ranks that one tensor is divided over; 1: none.
  /// With dp > 1 that is HSDP: dp replicas of fsdp ranks, rank = fsdp_rank + fsdp * dp_rank.
  std::uint32_t fsdp = 1;
  /// Layers of each pipeline stage; empty until resolved for a model.
  std::vector<std::uint32_t> pp_layers;

  [[nodiscard]] std::uint32_t ranks() const noexcept { return tp * pp * dp * fsdp; }
  [[nodiscard]] std::uint32_t edp() const noexcept { return tp * dp / (etp * ep); }
  friend bool operator==(const Parallelism&, const Parallelism&) = default;
};

/// Reads "key=number,..": tp, pp, dp, ep, etp; of a trainer also fsdp; pp-layers=8:8:7 gives the stages. What
/// is left out: etp is tp with ep=1, else 1 (vLLM and SGLang split experts by width only without expert
/// parallelism); dp is the least for which etp * ep divides tp * dp. Error(input) naming key and value:
/// unknown key (with the nearest known one), no number from 1 to 65536, a key twice, etp * ep that does not
/// divide tp * dp, fsdp together with tp, pp, ep or etp, more than 65536 ranks. Empty text is one rank.
[[nodiscard]] Parallelism parse_parallelism(std::string_view text, Side side);

/// "tp=2,pp=8,dp=16,ep=32": what is 1 left out, except that nothing at all is "tp=1".
[[nodiscard]] std::string to_string(const Parallelism& parallelism);

}  // namespace refit::reshard
