// Up with the items, down with their differences; strings are made for those that differ alone.
#include "cuda/comparison.hpp"

#include <span>
#include <utility>

#include "cuda/check.hpp"
#include "cuda/tiles.hpp"
#include "refit/quant/mxfp8.hpp"

namespace refit::cuda {
namespace {

/// Bytes that an item judges.
std::uint64_t bytes_of(const kernels::Compare& item) {
  if (item.expect == kernels::Expect::copy) return item.rows * item.row_bytes;
  if (item.expect == kernels::Expect::places) return item.rows;
  return (item.values != nullptr ? item.rows * item.cols : 0) +
         (item.scales != nullptr ? item.rows * (item.cols / quant::kBlock) : 0);
}

}  // namespace

void Comparison::reserve(std::size_t items) {
  items_.reserve(items);
  judged_.reserve(items);
}

void Comparison::add(const kernels::Compare& item, const Owner& values, const Owner& scales,
                     const Listeners& listeners) {
  const std::uint64_t bytes = bytes_of(item);
  for (const Listener& listener : listeners) {
    if (listener.tally != nullptr) listener.tally->compared(bytes);
  }
  items_.push_back(item);
  judged_.push_back({values, scales, listeners});
}

void Comparison::run() {
  const Work<kernels::Compare> work =
      cut_into_tiles(std::exchange(items_, {}), kernels::kCompareTile, kernels::compare_units);
  const std::vector<Judged> judged = std::exchange(judged_, {});
  if (work.tiles.empty()) return;
  std::vector<kernels::Difference> values(work.items.size()), scales(work.items.size());
  const auto [items, tiles, device_values, device_scales] =
      uploads_.send(work.items, work.tiles, values, scales);
  session_->begin("comparing with the reference");
  kernels::compare(items, tiles, work.tile_count(), device_values, device_scales, session_->stream());
  check(cudaGetLastError(), "launching a comparison");
  session_->read(std::as_writable_bytes(std::span(values)), device_values);
  session_->read(std::as_writable_bytes(std::span(scales)), device_scales);
  uploads_.release_large();
  for (std::size_t i = 0; i < work.items.size(); ++i) {
    const kernels::Compare& item = work.items[i];
    tell(judged[i], judged[i].values, values[i], item.from, item.values);
    tell(judged[i], judged[i].scales, scales[i], nullptr, nullptr);
  }
}

void Comparison::tell(const Judged& judged, const Owner& owner, const kernels::Difference& difference,
                      const std::byte* expected_from, const std::byte* got_from) const {
  if (difference.count == 0) return;
  const std::uint64_t at = difference.first >> 16;
  const std::uint64_t element = at / 4 * 4;
  const auto expected = place_of(difference.first >> 8 & 0xFF, owner.f32 ? expected_from + element : nullptr);
  const auto got = place_of(difference.first & 0xFF, owner.f32 ? got_from + element : nullptr);
  for (const Listener& listener : judged.listeners) {
    if (listener.tally == nullptr) continue;
    listener.tally->differ(owner.tensor, owner.at + at, difference.count, expected, got, listener.what);
  }
}

verify::Tally::Place Comparison::place_of(std::uint64_t byte, const std::byte* element) const {
  verify::Tally::Place place{.byte = static_cast<std::byte>(byte), .element = {}};
  if (element != nullptr) session_->read(place.element, element);
  return place;
}

}  // namespace refit::cuda
