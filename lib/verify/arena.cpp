// An arena's tensors: where they are, what they are filled with, and digests of every parameter.
#include <algorithm>
#include <atomic>

#include "refit/base/digest.hpp"
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

void poison(std::span<const Extent> extents, std::span<std::byte> arena, std::byte value, ThreadPool& pool) {
  for_chunks(extents, pool, [&](std::size_t extent, std::uint64_t at, std::uint64_t bytes) {
    std::ranges::fill(arena.subspan(extents[extent].offset + at, bytes), value);
  });
}

}  // namespace refit::verify
