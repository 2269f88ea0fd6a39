// Coverage from memory: poison that must be gone, guards that must be whole, and digests of every parameter.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "verify/reference.hpp"

namespace refit::verify {
namespace {

constexpr std::uint64_t kChunk = 1 << 20;  // a multiple of a digest's words

/// Calls body(extent, offset in it, bytes) for pieces of all extents, on all threads.
template <class Body>
void for_chunks(std::span<const Extent> extents, ThreadPool& pool, Body body) {
  struct Chunk {
    std::size_t extent;
    std::uint64_t at, bytes;
  };
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    for (std::uint64_t at = 0; at < extents[i].bytes; at += kChunk) {
      chunks.push_back({i, at, std::min(kChunk, extents[i].bytes - at)});
    }
  }
  pool.for_range(chunks.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) body(chunks[i].extent, chunks[i].at, chunks[i].bytes);
  });
}

template <class Owners>
std::vector<Extent> extents_of(const Owners& owners) {
  std::vector<Extent> extents;
  extents.reserve(owners.size());
  for (const auto& owner : owners) extents.push_back({owner.spec.name, owner.offset, owner.spec.bytes()});
  return extents;
}

/// A stretch of an arena that belongs to no tensor.
struct Guard {
  const Extent* before = nullptr;  ///< the tensor that it follows, null at the arena's beginning
  const Extent* after = nullptr;   ///< the tensor that follows it, null at the arena's end
  std::uint64_t begin = 0, end = 0;
};

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

/// Every byte of the pattern depends on its place, so that neither moved nor constant bytes look right.
std::byte guard_byte(std::uint64_t position) noexcept {
  return std::byte{static_cast<std::uint8_t>(mix64(position))};
}

std::string place_of(const Guard& guard) {
  if (guard.after == nullptr) return "the guard at the arena's end";
  return fmt::format("the guard before {}", guard.after->name);
}

/// The longest run of one value.
struct Run {
  std::uint64_t begin = 0, length = 0;
};
Run longest_run(Bytes bytes, std::byte value) {
  Run longest;
  for (std::uint64_t i = 0; i < bytes.size();) {
    const auto begin = std::find(bytes.begin() + static_cast<std::ptrdiff_t>(i), bytes.end(), value);
    const auto end = std::find_if(begin, bytes.end(), [value](std::byte byte) { return byte != value; });
    if (const auto length = static_cast<std::uint64_t>(end - begin); length > longest.length) {
      longest = {static_cast<std::uint64_t>(begin - bytes.begin()), length};
    }
    i = static_cast<std::uint64_t>(end - bytes.begin());
  }
  return longest;
}

}  // namespace

std::vector<Extent> source_extents(const plan::Plan& plan) {
  return extents_of(plan.sources);
}
std::vector<Extent> destination_extents(const plan::Plan& plan) {
  return extents_of(plan.destinations);
}

std::vector<std::uint64_t> destination_digests(const plan::Plan& plan, Bytes destinations, ThreadPool& pool) {
  require_destinations(plan, destinations);
  const std::vector<Extent> extents = destination_extents(plan);
  std::vector<std::atomic<std::uint64_t>> sums(extents.size());
  for_chunks(extents, pool, [&](std::size_t extent, std::uint64_t at, std::uint64_t bytes) {
    sums[extent] += digest_part(destinations.subspan(extents[extent].offset + at, bytes), at / 8);
  });
  std::vector<std::uint64_t> digests(extents.size());
  for (std::size_t i = 0; i < digests.size(); ++i) digests[i] = sums[i] + mix64(extents[i].bytes + 1);
  return digests;
}

Result check_poison(const plan::Plan& plan, std::span<const std::uint64_t> first,
                    std::span<const std::uint64_t> second, Bytes destinations, std::byte poison) {
  require_destinations(plan, destinations);
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
    const Run left = longest_run(destinations.subspan(extents[i].offset, extents[i].bytes), poison);
    if (left.length != 0) {
      result.add({.tensor = extents[i].name,
                  .index = left.begin,
                  .expected = "the same over both poisons",
                  .got = hex(poison),
                  .count = left.length,
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

void fill_guards(std::span<const Extent> extents, std::span<std::byte> arena) {
  for (const Guard& guard : guards_of(extents, arena.size())) {
    for (std::uint64_t i = guard.begin; i < guard.end; ++i) arena[i] = guard_byte(i);
  }
}

Result check_guards(std::span<const Extent> extents, Bytes arena) {
  Result result;
  for (const Guard& guard : guards_of(extents, arena.size())) {
    result.bytes += guard.end - guard.begin;
    Finding finding;
    for (std::uint64_t i = guard.begin; i < guard.end; ++i) {
      if (arena[i] == guard_byte(i) || finding.count++ != 0) continue;
      const Extent* const nearest = guard.before != nullptr ? guard.before : guard.after;
      finding.tensor = nearest != nullptr ? nearest->name : "(empty arena)";
      finding.index = guard.before != nullptr ? i - guard.before->offset : i;
      finding.expected = hex(guard_byte(i));
      finding.got = hex(arena[i]);
      finding.what = fmt::format("{} was written to, at byte {} of the arena", place_of(guard), i);
    }
    if (finding.count != 0) result.add(std::move(finding));
  }
  return result;
}

void poison(std::span<const Extent> extents, std::span<std::byte> arena, std::byte value, ThreadPool& pool) {
  for_chunks(extents, pool, [&](std::size_t extent, std::uint64_t at, std::uint64_t bytes) {
    std::ranges::fill(arena.subspan(extents[extent].offset + at, bytes), value);
  });
}

}  // namespace refit::verify
