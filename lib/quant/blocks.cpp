// The fast path: quantize_blocks and quantize_rows, compiled for every instruction set and chosen at run
// time.
//
// A few blocks make a group. All modes are one computation with other constants (see
// quant/constants.hpp); groups with a block outside its range, which are rare, are left to the reference.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "refit/base/error.hpp"
#include "refit/quant/mxfp8.hpp"

#include <fmt/format.h>

#if defined(__aarch64__)
// Vectors of unknown length (SVE) do not suit blocks of 32, and every such CPU has NEON.
#define HWY_BASELINE_TARGETS HWY_NEON
#define HWY_COMPILE_ONLY_STATIC
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/blocks.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "quant/constants.hpp"
#include "quant/vectors-inl.hpp"

#ifndef REFIT_QUANT_BLOCKS_ONCE
#define REFIT_QUANT_BLOCKS_ONCE
namespace refit::quant {
namespace {

constexpr std::size_t kBlockBytes = kBlock * sizeof(std::uint16_t);  // a line
// Measured on arrays far larger than the cache. Six places are read in turn, because one stream does not
// keep enough lines under way; contiguous arrays are cut into pieces for that.
constexpr std::size_t kInterleaved = 6;
constexpr std::size_t kPieceBlocks = 128;
constexpr std::size_t kNearBlocks = 8;  // how far ahead of the run at hand the nearest cache is filled
/// Bytes of `q` from which the cache is bypassed: a plain store would first fetch the line that it
/// overwrites.
constexpr std::size_t kStreamed = 64 << 10;
constexpr std::size_t kStreamAlignment = 64;

/// Returns whether everything is finite.
HWY_NOINLINE bool quantize_by_reference(Row at, std::size_t blocks, const Options& options) noexcept {
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::span<const std::uint16_t, kBlock> in(at.in + block * kBlock, kBlock);
    at.scales[block] =
        quantize_block_reference(in, options, std::span<std::uint8_t, kBlock>(at.q + block * kBlock, kBlock));
  }
  return std::all_of(at.in, at.in + blocks * kBlock, is_finite);
}

Row advanced(const Row& row, std::size_t blocks) noexcept {
  return {row.in + blocks * kBlock, row.q + blocks * kBlock, row.scales + blocks};
}

/// Whether to bypass the cache, for results too large to be found there again.
bool streams(const Row* rows, std::size_t count, std::size_t blocks) noexcept {
  return count * blocks * kBlock >= kStreamed && std::all_of(rows, rows + count, [](const Row& row) {
           return reinterpret_cast<std::uintptr_t>(row.q) % kStreamAlignment == 0;
         });
}

/// What will be read and written later, to be fetched; it need not be inside any array.
struct Ahead {
  std::uintptr_t in, scales;
};

Ahead ahead(const Row& row, std::size_t blocks) noexcept {
  return {reinterpret_cast<std::uintptr_t>(row.in) + blocks * kBlockBytes,
          reinterpret_cast<std::uintptr_t>(row.scales) + blocks};
}

}  // namespace
}  // namespace refit::quant
#endif

HWY_BEFORE_NAMESPACE();
namespace refit::quant {
namespace {
namespace HWY_NAMESPACE {

const char* target_name() {
  return hwy::TargetName(HWY_TARGET);
}

#if HWY_TARGET == HWY_SCALAR

bool quantize(const Row* rows, std::size_t count, std::size_t blocks, const Options& options) {
  bool finite = true;
  for (std::size_t r = 0; r < count; ++r) {
    for (std::size_t block = 0; block < blocks; ++block) {
      finite &= quantize_by_reference(advanced(rows[r], block), 1, options);
    }
  }
  return finite;
}

#else

/// kRun blocks at each of kPlaces places.
template <bool stream>
HWY_INLINE bool quantize_group(const Row* places, std::size_t block, const Words& words,
                               const Options& options) {
  constexpr std::size_t pairs = kPairs / kPlaces;  // of a place
  V va[kPairs], vb[kPairs], ma[kPairs], mb[kPairs], larger[kPairs];
  for (std::size_t p = 0; p < kPairs; ++p) {
    const Pair pair = load_pair(places[p / pairs].in + block * kBlock + p % pairs * 2 * kLanes);
    va[p] = pair.a;
    vb[p] = pair.b;
    ma[p] = hn::And(va[p], words.magnitude);
    mb[p] = hn::And(vb[p], words.magnitude);
    larger[p] = hn::Max(ma[p], mb[p]);
  }
  const PerBlock largest = block_maxima(larger);
  V low[kPerBlock];
  alignas(64) std::uint16_t scales[kPerBlock * kLanes];
  bool usual = true;
  for (std::size_t i = 0; i < kPerBlock; ++i) {
    const V b = largest.vectors[i];
    const V rounded = hn::ShiftRight<7>(hn::Add(b, words.add));
    const V scale = hn::Max(hn::SaturatedSub(rounded, words.subtract), words.at_least);
    hn::Store(scale, d, scales + i * kLanes);
    low[i] = hn::Sub(hn::Max(scale, words.smallest_scale), words.six);
    const V outside = hn::SaturatedSub(hn::Sub(b, words.first), words.last_after_first);
    usual &= hn::AllTrue(d, hn::Eq(hn::Min(b, outside), hn::Zero(d)));
  }
  if (HWY_UNLIKELY(!usual)) {
    bool finite = true;
    for (std::size_t i = 0; i < kPlaces; ++i) {
      finite &= quantize_by_reference(advanced(places[i], block), kRun, options);
    }
    return finite;
  }
  for (std::size_t p = 0; p < kPairs; ++p) {
    const V pair_low = for_pair(low, p);
    const Pair codes = {magnitudes(va[p], ma[p], pair_low, words), magnitudes(vb[p], mb[p], pair_low, words)};
    const V8 q = packed(codes, {va[p], vb[p]}, words);
    std::uint8_t* const to = places[p / pairs].q + block * kBlock + p % pairs * 2 * kLanes;
    if constexpr (stream) {
      hn::Stream(q, d8, to);
    } else {
      hn::StoreU(q, d8, to);
    }
  }
  // Volatile, or the compiler takes the bytes out of the vector, which costs four times as much. One store a
  // place, because streaming stores leave little room in the store buffer.
  const volatile std::uint16_t* const stored = scales;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    std::uint32_t bytes = 0;
    for (std::size_t k = 0; k < kRun; ++k) {
      bytes |= static_cast<std::uint32_t>(stored[lane_of(i * kRun + k) * 4]) << (8 * k);
    }
    std::memcpy(places[i].scales + block, &bytes, kRun);
  }
  return true;
}

/// `count` rows in turn, kRun blocks each. What comes next in a row is fetched into the nearest cache, and
/// the same place of `next` into the second: both together keep more lines under way than either alone.
template <std::size_t count, bool stream>
HWY_INLINE bool quantize_interleaved(const Row* rows, const Ahead* next, std::size_t blocks,
                                     const Words& words, const Options& options) {
  static_assert(count % kPlaces == 0);
  bool finite = true;
  for (std::size_t block = 0; block < blocks; block += kRun) {
    for (std::size_t r = 0; r < count; r += kPlaces) {
      for (std::size_t i = r; i < r + kPlaces; ++i) {
        const Ahead near = ahead(rows[i], kNearBlocks);
        if (block % kPieceBlocks == 0)
          __builtin_prefetch(reinterpret_cast<const void*>(next[i].scales + block), 1);
        for (std::size_t line = block; line < block + kRun; ++line) {
          __builtin_prefetch(reinterpret_cast<const void*>(next[i].in + line * kBlockBytes), 0, 2);
          __builtin_prefetch(reinterpret_cast<const void*>(near.in + line * kBlockBytes), 0, 3);
        }
      }
      finite &= quantize_group<stream>(rows + r, block, words, options);
    }
  }
  return finite;
}

/// What no group is made of: fewer blocks than one, at one place.
HWY_NOINLINE bool quantize_rest(Row at, std::size_t blocks, const Words& words, const Options& options) {
  alignas(64) std::uint16_t in[kGroupBlocks * kBlock] = {};
  alignas(64) std::uint8_t q[kGroupBlocks * kBlock];
  std::uint8_t scales[kGroupBlocks];
  Row places[kPlaces];
  for (std::size_t i = 0; i < kPlaces; ++i) places[i] = advanced({in, q, scales}, i * kRun);
  std::memcpy(in, at.in, blocks * kBlockBytes);
  const bool finite = quantize_group<false>(places, 0, words, options);
  std::memcpy(at.q, q, blocks * kBlock);
  std::memcpy(at.scales, scales, blocks);
  return finite;
}

/// `count` pieces of a row in turn.
template <std::size_t count, bool stream>
bool quantize_pieces(Row at, std::size_t blocks, const Words& words, const Options& options) {
  Row rows[count];
  Ahead next[count];
  for (std::size_t i = 0; i < count; ++i) {
    rows[i] = advanced(at, i * blocks);
    next[i] = ahead(rows[i], kInterleaved * kPieceBlocks);
  }
  return quantize_interleaved<count, stream>(rows, next, blocks, words, options);
}

/// One row, cut into pieces of which as many as interleave are read in turn.
template <bool stream>
bool quantize_row(Row at, std::size_t blocks, const Words& words, const Options& options) {
  constexpr std::size_t together = kInterleaved * kPieceBlocks;
  bool finite = true;
  for (; blocks >= together; blocks -= together, at = advanced(at, together)) {
    finite &= quantize_pieces<kInterleaved, stream>(at, kPieceBlocks, words, options);
  }
  const std::size_t piece = blocks / kGroupBlocks * kRun;
  finite &= quantize_pieces<kPlaces, stream>(at, piece, words, options);
  const std::size_t done = kPlaces * piece;
  if (done < blocks) finite &= quantize_rest(advanced(at, done), blocks - done, words, options);
  return finite;
}

/// Rows that lie apart: as many parts of the list in turn as interleave, a row each, so that every part is
/// read in order.
template <bool stream>
bool quantize_separate_rows(const Row* rows, std::size_t count, std::size_t blocks, const Words& words,
                            const Options& options) {
  const std::size_t whole = blocks / kRun * kRun;
  const std::size_t part = count / kInterleaved;
  const std::size_t rows_ahead = 1 + kPieceBlocks / std::max<std::size_t>(blocks, 1);
  bool finite = true;
  for (std::size_t r = 0; r < part; ++r) {
    Row now[kInterleaved];
    Ahead next[kInterleaved];
    for (std::size_t i = 0; i < kInterleaved; ++i) {
      now[i] = rows[i * part + r];
      // After the last of its part: the same place of another list, which begins behind the last row in
      // memory.
      next[i] = r + rows_ahead < part
                    ? ahead(rows[i * part + r + rows_ahead], 0)
                    : ahead(rows[count - 1], (1 + i * part + r + rows_ahead - part) * blocks);
    }
    finite &= quantize_interleaved<kInterleaved, stream>(now, next, whole, words, options);
    if (whole == blocks) continue;
    for (const Row& row : now) finite &= quantize_rest(advanced(row, whole), blocks - whole, words, options);
  }
  for (std::size_t r = part * kInterleaved; r < count; ++r) {
    finite &= quantize_row<stream>(rows[r], blocks, words, options);
  }
  return finite;
}

bool quantize(const Row* rows, std::size_t count, std::size_t blocks, const Options& options) {
  const Words words(constants_of(options));
  if (!streams(rows, count, blocks))
    return quantize_separate_rows<false>(rows, count, blocks, words, options);
  const bool finite = quantize_separate_rows<true>(rows, count, blocks, words, options);
  hwy::FlushStream();
  return finite;
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace refit::quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace refit::quant {
namespace {

HWY_EXPORT(quantize);
HWY_EXPORT(target_name);

void require_blocks(std::size_t elements) {
  if (elements % kBlock != 0) {
    fail_input(fmt::format("Rows of {} elements cannot be quantized: MXFP8 needs multiples of {}.", elements,
                           kBlock));
  }
}

}  // namespace

bool quantize_blocks(std::span<const std::uint16_t> in, const Options& options, std::span<std::uint8_t> q,
                     std::span<std::uint8_t> scales) {
  require_blocks(in.size());
  if (q.size() != in.size() || scales.size() != in.size() / kBlock) {
    fail_input(fmt::format("Quantizing {} elements gives as many bytes and {} scales, not {} and {}.",
                           in.size(), in.size() / kBlock, q.size(), scales.size()));
  }
  const Row row = {in.data(), q.data(), scales.data()};
  return HWY_DYNAMIC_DISPATCH(quantize)(&row, 1, scales.size(), options);
}

bool quantize_rows(std::span<const Row> rows, std::size_t k, const Options& options) {
  require_blocks(k);
  return HWY_DYNAMIC_DISPATCH(quantize)(rows.data(), rows.size(), k / kBlock, options);
}

std::string_view active_target() noexcept {
  return HWY_DYNAMIC_DISPATCH(target_name)();
}

}  // namespace refit::quant
#endif
