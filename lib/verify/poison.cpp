// Coverage over two poisons: what a refit does not write shows as what was there before.
#include "verify/poison.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "verify/reference.hpp"

namespace refit::verify {

void LongestRun::look_at(Bytes next) {
  for (auto at = next.begin(); at != next.end();) {
    const auto end = std::find_if(at, next.end(), [this](std::byte byte) { return byte != value_; });
    run_ += static_cast<std::uint64_t>(end - at);
    seen_ += static_cast<std::uint64_t>(end - at);
    if (run_ > length_) {
      begin_ = seen_ - run_;
      length_ = run_;
    }
    if (end == next.end()) return;
    at = std::find(end, next.end(), value_);
    seen_ += static_cast<std::uint64_t>(at - end);
    run_ = 0;
  }
}

Result check_poison(const plan::Plan& plan, std::span<const std::uint64_t> first,
                    std::span<const std::uint64_t> second, const ReadParameter& read, std::byte poison) {
  const std::vector<Extent> extents = destination_extents(plan);
  if (first.size() != extents.size() || second.size() != extents.size()) {
    fail_input(
        fmt::format("The poison check needs two digests for each of {} parameters, and {} and {} were given.",
                    extents.size(), first.size(), second.size()));
  }
  Result result;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    result.bytes += extents[i].bytes;
    if (first[i] == second[i]) continue;
    LongestRun left(poison);
    read(extents[i], left);
    if (left.length() != 0) {
      result.add({.tensor = extents[i].name,
                  .index = left.begin(),
                  .expected = "the same over both poisons",
                  .got = hex(poison),
                  .count = left.length(),
                  .what = "still holds the poison"});
    } else {
      result.add({.tensor = extents[i].name,
                  .index = 0,
                  .expected = "digest " + digest_hex(first[i]),
                  .got = "digest " + digest_hex(second[i]),
                  .count = 1,
                  .what = "two refits of the same weights over two poisons gave other bytes"});
    }
  }
  return result;
}

Result check_poison(const plan::Plan& plan, std::span<const std::uint64_t> first,
                    std::span<const std::uint64_t> second, Bytes destinations, std::byte poison) {
  require_destinations(plan, destinations);
  return check_poison(
      plan, first, second,
      [destinations](const Extent& parameter, LongestRun& run) {
        run.look_at(destinations.subspan(parameter.offset, parameter.bytes));
      },
      poison);
}

}  // namespace refit::verify
