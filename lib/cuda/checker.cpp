// Each check is a list of items, one launch, and a look at what it counted.
#include "cuda/checker.hpp"

#include <algorithm>

#include "cuda/check.hpp"
#include "cuda/packed.hpp"
#include "cuda/tiles.hpp"
#include "refit/base/digest.hpp"
#include "verify/guards.hpp"
#include "verify/poison.hpp"
#include "verify/reference.hpp"

namespace refit::cuda {
namespace {

/// What is fetched at a time of a parameter that has to be looked at on the host.
constexpr std::uint64_t kPieceBytes = 64u << 20;

Work<kernels::Range> cut_ranges(std::vector<kernels::Range> ranges) {
  return cut_into_tiles(std::move(ranges), kernels::kRangeTile,
                        [](const kernels::Range& range) { return range.bytes; });
}

/// Kernels that read take ranges of the same type as those that write.
std::byte* unconst(const std::byte* data) noexcept {
  return const_cast<std::byte*>(data);
}

Work<kernels::Range> guard_work(std::span<const verify::Guard> guards, const std::byte* arena) {
  std::vector<kernels::Range> ranges;
  ranges.reserve(guards.size());
  for (const verify::Guard& guard : guards) {
    ranges.push_back({.data = unconst(arena) + guard.begin, .bytes = guard.end - guard.begin});
  }
  return cut_ranges(std::move(ranges));
}

verify::Result result_of(const verify::Tally& tally, const plan::Plan& plan) {
  return tally.result([&](std::size_t number) {
    const TensorSpec& spec = plan.destinations[number].spec;
    return verify::Tally::Tensor{spec.name, spec.dtype};
  });
}

}  // namespace

Checker::Checker(SessionPtr session, Uploads& uploads, RowMaps& row_maps)
    : session_(std::move(session)), uploads_(uploads), row_maps_(row_maps), tables_(session_, uploads) {}

void Checker::poison(std::span<const verify::Extent> extents, std::span<std::byte> arena, std::byte value) {
  std::vector<kernels::Range> ranges;
  ranges.reserve(extents.size());
  for (const verify::Extent& extent : extents) {
    ranges.push_back({.data = arena.subspan(extent.offset, extent.bytes).data(), .bytes = extent.bytes});
  }
  const Work<kernels::Range> work = cut_ranges(std::move(ranges));
  const auto [items, tiles] = uploads_.send(work.items, work.tiles);
  session_->begin("filling parameters with poison");
  kernels::fill_ranges(items, tiles, work.tile_count(), std::to_integer<std::uint8_t>(value),
                       session_->stream());
  check(cudaGetLastError(), "launching a fill");
}

void Checker::fill_guards(std::span<const verify::Extent> extents, std::span<std::byte> arena) {
  const Work<kernels::Range> work = guard_work(verify::guards_of(extents, arena.size()), arena.data());
  const auto [items, tiles] = uploads_.send(work.items, work.tiles);
  session_->begin("filling guards");
  kernels::fill_guards(items, tiles, work.tile_count(), arena.data(), session_->stream());
  check(cudaGetLastError(), "launching a fill of guards");
}

verify::Result Checker::check_guards(std::span<const verify::Extent> extents,
                                     std::span<const std::byte> arena) {
  const std::vector<verify::Guard> guards = verify::guards_of(extents, arena.size());
  const Work<kernels::Range> work = guard_work(guards, arena.data());
  std::vector<kernels::Difference> differences(guards.size());
  const auto [items, tiles, device_differences] = uploads_.send(work.items, work.tiles, differences);
  session_->begin("looking at guards");
  kernels::check_guards(items, tiles, work.tile_count(), arena.data(), device_differences,
                        session_->stream());
  check(cudaGetLastError(), "launching a look at guards");
  session_->read(std::as_writable_bytes(std::span(differences)), device_differences);
  uploads_.release_large();

  verify::Result result;
  for (std::size_t i = 0; i < guards.size(); ++i) {
    result.bytes += guards[i].end - guards[i].begin;
    if (const kernels::Difference& found = differences[i]; found.count != 0) {
      result.add(verify::damage_of(guards[i], found.first >> 16, static_cast<std::byte>(found.first & 0xFF),
                                   found.count));
    }
  }
  return result;
}

std::vector<std::uint64_t> Checker::digests(std::span<const std::span<const std::byte>> ranges) {
  std::vector<kernels::Range> to_digest;
  to_digest.reserve(ranges.size());
  for (const auto range : ranges) to_digest.push_back({.data = unconst(range.data()), .bytes = range.size()});
  const Work<kernels::Range> work = cut_ranges(std::move(to_digest));
  std::vector<std::uint64_t> sums(ranges.size());
  const auto [items, tiles, device_sums] = uploads_.send(work.items, work.tiles, sums);
  session_->begin("making digests");
  kernels::digest_ranges(items, tiles, work.tile_count(), device_sums, session_->stream());
  check(cudaGetLastError(), "launching digests");
  session_->read(std::as_writable_bytes(std::span(sums)), device_sums);
  uploads_.release_large();
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += mix64(ranges[i].size() + 1);
  return sums;
}

verify::Result Checker::check_packed(const plan::Plan& plan, const plan::Wire& wire, std::size_t bucket,
                                     std::span<const std::byte> packed, std::span<const std::byte> sources,
                                     std::vector<bool>* wrong_entries) {
  verify::require_sources(plan, sources);
  verify::require_packed(wire, bucket, packed);
  verify::Tally tally;
  Comparison comparison(session_, uploads_);
  add_packed(plan, wire, bucket, packed, sources, tally, comparison);
  comparison.run();
  if (wrong_entries != nullptr) {
    wrong_entries->resize(wire.entries.size());
    for (const std::size_t entry : tally.tensors()) (*wrong_entries)[entry] = true;
  }
  return tally.result([&](std::size_t entry) {
    return verify::Tally::Tensor{wire.entries[entry].name, wire.entries[entry].dtype};
  });
}

verify::InPlace Checker::check_in_place(const plan::Plan& plan, std::span<const std::byte> sources,
                                        std::span<const std::byte> destinations,
                                        const std::vector<bool>& masked) {
  verify::Tally quantizer, layout;
  judge_in_place({.plan = plan,
                  .sources = sources,
                  .destinations = destinations,
                  .masked = masked,
                  .quantizer = &quantizer,
                  .layout = &layout});
  return {.quantizer = result_of(quantizer, plan), .layout = result_of(layout, plan)};
}

verify::Result Checker::check_layout(const plan::Plan& plan, std::span<const std::byte> sources,
                                     std::span<const std::byte> destinations,
                                     const std::vector<bool>& masked) {
  verify::Tally layout;
  judge_in_place({.plan = plan,
                  .sources = sources,
                  .destinations = destinations,
                  .masked = masked,
                  .quantizer = nullptr,
                  .layout = &layout});
  return result_of(layout, plan);
}

void Checker::judge_in_place(const InPlaceItems::Asked& asked) {
  verify::require_sources(asked.plan, asked.sources);
  verify::require_destinations(asked.plan, asked.destinations);
  verify::require_marks(asked.plan, asked.masked);
  InPlaceItems items(asked, tables_, row_maps_);
  Comparison comparison(session_, uploads_);
  items.add_to(comparison);
  comparison.run();
}

verify::Result Checker::check_poison(const plan::Plan& plan, std::span<const std::uint64_t> first,
                                     std::span<const std::uint64_t> second,
                                     std::span<const std::byte> destinations, std::byte poison) {
  verify::require_destinations(plan, destinations);
  std::vector<std::byte> piece;
  const auto look_at = [&](const verify::Extent& parameter, verify::LongestRun& run) {
    for (std::uint64_t at = 0; at < parameter.bytes; at += kPieceBytes) {
      piece.resize(std::min(kPieceBytes, parameter.bytes - at));
      session_->read(piece, destinations.data() + parameter.offset + at);
      run.look_at(piece);
    }
  };
  return verify::check_poison(plan, first, second, look_at, poison);
}

}  // namespace refit::cuda
