// Coverage beside the tensors: a fixed pattern that nobody may write to.
#include "verify/guards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "verify/tally.hpp"

namespace refit::verify {
namespace {

std::string place_of(const Guard& guard) {
  if (guard.after == nullptr) return "the guard at the arena's end";
  return fmt::format("the guard before {}", guard.after->name);
}

}  // namespace

std::vector<Guard> guards_of(std::span<const Extent> extents, std::uint64_t arena_bytes) {
  std::vector<const Extent*> ordered;
  for (const Extent& extent : extents) ordered.push_back(&extent);
  std::sort(ordered.begin(), ordered.end(), [](const Extent* a, const Extent* b) {
    return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
  });

  std::vector<Guard> guards;
  Guard guard;
  for (const Extent* extent : ordered) {
    if (extent->offset < guard.begin || extent->offset + extent->bytes > arena_bytes) {
      fail_input(fmt::format(
          "Tensor {} lies at bytes {} to {} of an arena of {} bytes, whose tensor before it ends "
          "at {}.",
          extent->name, extent->offset, extent->offset + extent->bytes, arena_bytes, guard.begin));
    }
    guard.after = extent;
    guard.end = extent->offset;
    guards.push_back(guard);
    guard = {.before = extent, .begin = extent->offset + extent->bytes};
  }
  guard.end = arena_bytes;
  guards.push_back(guard);
  return guards;
}

std::byte guard_byte(std::uint64_t position) noexcept {
  return std::byte{static_cast<std::uint8_t>(mix64(position))};
}

Finding damage_of(const Guard& guard, std::uint64_t at, std::byte got, std::uint64_t count) {
  const Extent* const nearest = guard.before != nullptr ? guard.before : guard.after;
  return {.tensor = nearest != nullptr ? nearest->name : "(empty arena)",
          .index = guard.before != nullptr ? at - guard.before->offset : at,
          .expected = hex(guard_byte(at)),
          .got = hex(got),
          .count = count,
          .what = fmt::format("{} was written to, at byte {} of the arena", place_of(guard), at)};
}

void fill_guards(std::span<const Extent> extents, std::span<std::byte> arena) {
  for (const Guard& guard : guards_of(extents, arena.size())) {
    for (std::uint64_t i = guard.begin; i < guard.end; ++i) arena[i] = guard_byte(i);
  }
}

Result check_guards(std::span<const Extent> extents, Bytes arena) {
  Result result;
  for (const Guard& guard : guards_of(extents, arena.size())) {
    result.bytes += guard.end - guard.begin;
    std::uint64_t first = 0, count = 0;
    for (std::uint64_t i = guard.begin; i < guard.end; ++i) {
      if (arena[i] != guard_byte(i) && count++ == 0) first = i;
    }
    if (count != 0) result.add(damage_of(guard, first, arena[first], count));
  }
  return result;
}

}  // namespace refit::verify
