// Names of the rounding modes.
#include <algorithm>
#include <utility>

#include "refit/quant/mxfp8.hpp"

namespace refit::quant {
namespace {

constexpr std::pair<Rounding, std::string_view> kNames[] = {
    {Rounding::flashinfer, "flashinfer"},       {Rounding::flashinfer_cuda, "flashinfer-cuda"},
    {Rounding::torchao_rceil, "torchao-rceil"}, {Rounding::torchao_floor, "torchao-floor"},
    {Rounding::torchao_even, "torchao-even"},   {Rounding::torchao_ceil, "torchao-ceil"},
    {Rounding::vllm_floor, "vllm-floor"}};

}  // namespace

std::string_view name_of(Rounding rounding) noexcept {
  return std::ranges::find(kNames, rounding, &std::pair<Rounding, std::string_view>::first)->second;
}

std::optional<Rounding> parse_rounding(std::string_view name) noexcept {
  const auto* found = std::ranges::find(kNames, name, &std::pair<Rounding, std::string_view>::second);
  if (found == std::end(kNames)) return std::nullopt;
  return found->first;
}

}  // namespace refit::quant
