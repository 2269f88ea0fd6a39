// Differences of many tensors, counted from many threads.
#include "verify/tally.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace refit::verify {
namespace {

bool same(Bytes a, Bytes b) noexcept {
  return a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

std::string hex(std::byte value) {
  return fmt::format("{:#04x}", std::to_integer<unsigned>(value));
}

void Tally::compare(std::size_t tensor, std::uint64_t index, Bytes expected, Bytes got, std::string_view what,
                    Bytes ignored) {
  const auto ignored_bytes =
      ignored.size() - static_cast<std::size_t>(std::count(ignored.begin(), ignored.end(), std::byte{0}));
  compared(expected.size() - ignored_bytes);
  if (same(expected, got)) return;

  std::uint64_t count = 0, first = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == got[i] || (!ignored.empty() && ignored[i] != std::byte{0})) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return;
  differ(tensor, index + first, count, place_of(expected, first), place_of(got, first), what);
}

void Tally::differ(std::size_t tensor, std::uint64_t index, std::uint64_t count, const Place& expected,
                   const Place& got, std::string_view what) {
  const std::lock_guard lock(mutex_);
  Difference& difference = differences_[tensor];
  if (difference.count == 0 || index < difference.first) {
    difference.first = index;
    difference.what = what;
    difference.expected = expected;
    difference.got = got;
  }
  difference.count += count;
}

Tally::Place Tally::place_of(Bytes bytes, std::uint64_t at) {
  Place place{.byte = bytes[at]};
  const Bytes element = bytes.subspan(at / 4 * 4);
  std::copy_n(element.begin(), std::min(element.size(), place.element.size()), place.element.begin());
  return place;
}

std::vector<std::size_t> Tally::tensors() const {
  std::vector<std::size_t> tensors;
  for (const auto& [tensor, difference] : differences_) tensors.push_back(tensor);
  return tensors;
}

Result Tally::result(const std::function<Tensor(std::size_t)>& tensor_of) const {
  Result result;
  result.bytes = bytes_;
  for (const auto& [number, difference] : differences_) {
    Tensor tensor = tensor_of(number);
    Finding finding{.tensor = std::move(tensor.name),
                    .index = difference.first,
                    .expected = hex(difference.expected.byte),
                    .got = hex(difference.got.byte),
                    .count = difference.count,
                    .what = difference.what};
    if (tensor.dtype == DType::f32) {
      finding.what += fmt::format(" ({} instead of {})", std::bit_cast<float>(difference.got.element),
                                  std::bit_cast<float>(difference.expected.element));
    }
    result.add(std::move(finding));
  }
  return result;
}

}  // namespace refit::verify
