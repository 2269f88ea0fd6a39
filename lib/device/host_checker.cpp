// Hands every question to refit/verify.
#include "device/host_checker.hpp"

#include <algorithm>
#include <atomic>

#include "refit/base/digest.hpp"

namespace refit::device {

void HostChecker::poison(std::span<const verify::Extent> extents, std::span<std::byte> arena,
                         std::byte value) {
  verify::poison(extents, arena, value, pool_);
}

void HostChecker::fill_guards(std::span<const verify::Extent> extents, std::span<std::byte> arena) {
  verify::fill_guards(extents, arena);
}

verify::Result HostChecker::check_guards(std::span<const verify::Extent> extents,
                                         std::span<const std::byte> arena) {
  return verify::check_guards(extents, arena);
}

std::vector<std::uint64_t> HostChecker::digests(std::span<const std::span<const std::byte>> ranges) {
  constexpr std::uint64_t kPiece = 1u << 20;  // a multiple of a digest's words
  struct Piece {
    std::size_t range;
    std::uint64_t at;
  };
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    for (std::uint64_t at = 0; at < ranges[i].size(); at += kPiece) pieces.push_back({i, at});
  }
  std::vector<std::atomic<std::uint64_t>> sums(ranges.size());
  pool_.for_range(pieces.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) {
      const std::span<const std::byte> range = ranges[pieces[p].range];
      const std::uint64_t at = pieces[p].at;
      sums[pieces[p].range] +=
          digest_part(range.subspan(at, std::min<std::uint64_t>(kPiece, range.size() - at)), at / 8);
    }
  });
  std::vector<std::uint64_t> digests(ranges.size());
  for (std::size_t i = 0; i < digests.size(); ++i) digests[i] = sums[i] + mix64(ranges[i].size() + 1);
  return digests;
}

verify::Result HostChecker::check_packed(const plan::Plan& plan, const plan::Wire& wire, std::size_t bucket,
                                         std::span<const std::byte> packed,
                                         std::span<const std::byte> sources,
                                         std::vector<bool>* wrong_entries) {
  return verify::check_packed(plan, wire, bucket, packed, sources, pool_, wrong_entries);
}

verify::InPlace HostChecker::check_in_place(const plan::Plan& plan, std::span<const std::byte> sources,
                                            std::span<const std::byte> destinations,
                                            const std::vector<bool>& masked) {
  return verify::check_in_place(plan, sources, destinations, pool_, masked);
}

verify::Result HostChecker::check_layout(const plan::Plan& plan, std::span<const std::byte> sources,
                                         std::span<const std::byte> destinations,
                                         const std::vector<bool>& masked) {
  return verify::check_layout(plan, sources, destinations, masked, pool_);
}

verify::Result HostChecker::check_poison(const plan::Plan& plan, std::span<const std::uint64_t> first,
                                         std::span<const std::uint64_t> second,
                                         std::span<const std::byte> destinations, std::byte poison) {
  return verify::check_poison(plan, first, second, destinations, poison);
}

std::vector<std::uint64_t> destination_digests(Checker& checker, const plan::Plan& plan,
                                               std::span<const std::byte> destinations) {
  std::vector<std::span<const std::byte>> ranges;
  ranges.reserve(plan.destinations.size());
  for (const plan::Destination& to : plan.destinations) {
    ranges.push_back(destinations.subspan(to.offset, to.spec.bytes()));
  }
  return checker.digests(ranges);
}

}  // namespace refit::device
