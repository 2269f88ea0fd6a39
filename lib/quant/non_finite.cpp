// find_non_finite: one pass in vectors, then element by element where something was found.
#include <algorithm>
#include <cstdint>

#include "refit/quant/mxfp8.hpp"

#if defined(__aarch64__)
#define HWY_BASELINE_TARGETS HWY_NEON
#define HWY_COMPILE_ONLY_STATIC
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/non_finite.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "quant/constants.hpp"

#ifndef REFIT_QUANT_NON_FINITE_ONCE
#define REFIT_QUANT_NON_FINITE_ONCE
namespace refit::quant {
namespace {

constexpr std::size_t kScan = 4096;  // elements that are looked at before something is decided

}  // namespace
}  // namespace refit::quant
#endif

HWY_BEFORE_NAMESPACE();
namespace refit::quant {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The largest multiple of kScan up to which everything is finite; `count` is one.
std::size_t scan(const std::uint16_t* bf16, std::size_t count) {
  const hn::ScalableTag<std::uint16_t> d;
  const auto suspicious = hn::Set(d, 0xFEFF);  // exponent of ones, after the sign has been shifted out
  for (std::size_t at = 0; at < count; at += kScan) {
    auto largest = hn::Zero(d);
    for (std::size_t i = 0; i < kScan; i += hn::Lanes(d)) {
      const auto v = hn::LoadU(d, bf16 + at + i);
      largest = hn::Max(largest, hn::Add(v, v));
    }
    if (!hn::AllTrue(d, hn::Eq(hn::SaturatedSub(largest, suspicious), hn::Zero(d)))) return at;
  }
  return count;
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace refit::quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace refit::quant {
namespace {

HWY_EXPORT(scan);

}  // namespace

std::optional<std::size_t> find_non_finite(std::span<const std::uint16_t> bf16) noexcept {
  const std::size_t scanned = HWY_DYNAMIC_DISPATCH(scan)(bf16.data(), bf16.size() / kScan * kScan);
  const auto found =
      std::find_if_not(bf16.begin() + static_cast<std::ptrdiff_t>(scanned), bf16.end(), is_finite);
  if (found == bf16.end()) return std::nullopt;
  return static_cast<std::size_t>(found - bf16.begin());
}

}  // namespace refit::quant
#endif
