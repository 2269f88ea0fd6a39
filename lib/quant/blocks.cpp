// The fast path: quantize_blocks, quantize_rows and find_non_finite in 16-bit integers, one source for every
// instruction set.
//
// A few consecutive blocks make a group. All modes are one computation with other constants (see Constants);
// groups with a block outside its range, which are rare, are left to the reference.
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
#include <hwy/foreach_target.h>
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#ifndef REFIT_QUANT_BLOCKS_ONCE
#define REFIT_QUANT_BLOCKS_ONCE
namespace refit::quant {
namespace {

constexpr std::size_t kBlockBytes = kBlock * sizeof(std::uint16_t);  // a line
constexpr std::size_t kInterleaved = 8;      ///< places that are read in turn, so that more lines are under way
constexpr std::size_t kPieceBlocks = 64;     ///< one page of BF16: contiguous arrays are cut into such rows
constexpr std::size_t kNear = 512;          ///< bytes that are fetched ahead of the group at hand
constexpr std::size_t kStreamed = 64 << 10;  ///< bytes of `q` from which the cache is bypassed
constexpr std::size_t kStreamAlignment = 64;
constexpr std::size_t kScan = 4096;  ///< elements that find_non_finite looks at before it decides

/// With b the magnitude bits of the block maximum: scale = max((b + add) / 128 - subtract, at_least).
/// Valid for b = 0 and from `first` on to first + last_after_first: there the scale is at least 11, so that no BF16
/// subnormal survives and the modes do not differ in how they treat them.
struct Constants {
  std::uint16_t add, subtract, at_least, first, last_after_first;
  // The same in all modes. They are here, where compilers do not see them, because those would rather build the
  // vectors anew for every group than keep them.
  std::uint16_t magnitude = 0x7FFF;
  std::uint16_t smallest_scale = 11;
  std::uint16_t six = 6;
  std::uint16_t fraction = 0x7F << 5;
  std::uint16_t implicit_one = 0x80 << 5;
  std::uint16_t unit = 1 << 9;  ///< of the last place that stays
  std::uint16_t half = 1 << 8;
  std::uint16_t below_half = (1 << 8) - 1;
  std::uint8_t largest = 0x7E;
  std::uint8_t sign = 0x80;
};

HWY_NOINLINE Constants constants_of(const Options& options) noexcept {
  std::uint16_t add = 31;  // amax / 448, rounded up: the fraction exceeds 0x60
  std::uint16_t subtract = 8;
  std::uint16_t last = 0x7F7F;
  switch (options.rounding) {
    case Rounding::flashinfer:
    case Rounding::flashinfer_cuda:
    case Rounding::torchao_rceil: break;
    case Rounding::torchao_floor: add = 0; break;
    case Rounding::torchao_even:
      add = 8;
      last = 0x7F77;  // beyond it the rounded maximum is infinite
      break;
    case Rounding::torchao_ceil: add = 127; break;
    case Rounding::vllm_floor: add = subtract = 0; break;
  }
  const bool never_zero = options.zero_scale == ZeroScale::one || options.rounding == Rounding::vllm_floor;
  const auto first = static_cast<std::uint16_t>((11 + subtract) * 128 - add);
  return {add, subtract, static_cast<std::uint16_t>(never_zero), first,
          static_cast<std::uint16_t>(last - first)};
}

bool is_finite(std::uint16_t bits) noexcept { return (bits & 0x7F80) != 0x7F80; }

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

/// The same offset into another row; an address to prefetch, which need not be inside any array.
const char* ahead(const void* address, std::size_t bytes) noexcept {
  return reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(address) + bytes);
}

}  // namespace
}  // namespace refit::quant
#endif

HWY_BEFORE_NAMESPACE();
namespace refit::quant {
namespace {
namespace HWY_NAMESPACE {

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

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

std::size_t scan(const std::uint16_t*, std::size_t) { return 0; }

#else

namespace hn = hwy::HWY_NAMESPACE;

const hn::CappedTag<std::uint16_t, kBlock> d;
const hn::Repartition<std::uint8_t, decltype(d)> d8;
const hn::Repartition<std::uint32_t, decltype(d)> d32;
const hn::Repartition<std::uint64_t, decltype(d)> d64;
using V = hn::Vec<decltype(d)>;
using V8 = hn::Vec<decltype(d8)>;
constexpr std::size_t kLanes = hn::MaxLanes(d);
constexpr std::size_t kGroupBlocks = kLanes == 32 ? 8 : 4;
constexpr std::size_t kGroup = kGroupBlocks * kBlock;

/// The constants in vectors, set once a call.
struct Words {
  explicit Words(const Constants& constants)
      : add(hn::Set(d, constants.add)),
        subtract(hn::Set(d, constants.subtract)),
        at_least(hn::Set(d, constants.at_least)),
        first(hn::Set(d, constants.first)),
        last_after_first(hn::Set(d, constants.last_after_first)),
        magnitude(hn::Set(d, constants.magnitude)),
        smallest_scale(hn::Set(d, constants.smallest_scale)),
        six(hn::Set(d, constants.six)),
        fraction(hn::Set(d, constants.fraction)),
        implicit_one(hn::Set(d, constants.implicit_one)),
        unit(hn::Set(d, constants.unit)),
        half(hn::Set(d, constants.half)),
        below_half(hn::Set(d, constants.below_half)),
        largest(hn::Set(d8, constants.largest)),
        sign(hn::Set(d8, constants.sign)) {}

  V add, subtract, at_least, first, last_after_first, magnitude, smallest_scale, six, fraction, implicit_one, unit,
      half, below_half;
  V8 largest, sign;
};

/// g >> min(shift, 5) for g < 2^13 whose low five bits are zero; 0..255 for more.
HWY_INLINE V shifted_right(V g, V shift) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  return g >> shift;
#else
  // No shift by a vector of counts here: multiply by 2^(15 - shift), looked up, and take the upper half.
  alignas(16) static constexpr std::uint8_t kPowers[16] = {0x80, 0x40, 0x20, 0x10, 8, 4, 2, 1};
  const V index = hn::Or(hn::ShiftLeft<8>(hn::Min(shift, hn::Set(d, 15))), hn::Set(d, 0x80));
  const V power = hn::BitCast(d, hn::TableLookupBytesOr0(hn::LoadDup128(d8, kPowers), hn::BitCast(d8, index)));
  return hn::MulHigh(hn::Add(g, g), power);
#endif
}

/// E4M3 magnitudes, up to 0x7F, of magnitudes m (and bits v with the sign) under scale byte `low` + 6.
///
/// e = m >> 7 is the exponent, f the seven fraction bits, k = e - low + 1 the exponent field of the result. Its
/// bits are those of k:f, rounded to three fraction bits. Below k = 1 the result is subnormal: 1.f moves right
/// by 1 - k instead. Both in units of 2^-9 of the last place that stays.
HWY_INLINE V magnitudes(V v, V m, V low, const Words& words) {
  const V e = hn::ShiftRight<7>(m);
  const V significand = hn::OrAnd(words.implicit_one, hn::ShiftLeft<5>(v), words.fraction);
  const V small = shifted_right(significand, hn::SaturatedSub(low, e));
  const V exact = hn::Add(small, hn::ShiftLeft<12>(hn::SaturatedSub(e, low)));
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3
  const V half = hn::Add(hn::ShiftRight<9>(hn::And(small, words.unit)), words.below_half);
#else
  const V half = hn::IfThenElse(hn::TestBit(small, words.unit), words.half, words.below_half);
#endif
  return hn::ShiftRight<9>(hn::SaturatedAdd(exact, half));
}

// A pair (a, b) of vectors has the 16-bit words that become one vector of bytes, and every word of a shares its
// scale with the same word of b:
//   32 words  a = first halves of two blocks, b = second halves
//   16 words  a, b = the halves of a block
//    8 words  a, b = the quarters of half a block
struct Pair {
  V a, b;
};
constexpr std::size_t kPairs = kGroup / (2 * kLanes);

HWY_INLINE Pair load_pair(const std::uint16_t* in) {
  const V first = hn::LoadU(d, in);
  const V second = hn::LoadU(d, in + kLanes);
#if HWY_MAX_BYTES == 64
  return {hn::ConcatLowerLower(d, second, first), hn::ConcatUpperUpper(d, second, first)};
#else
  return {first, second};
#endif
}

/// The low bytes of `codes` with the signs of `v`, in the order of memory.
HWY_INLINE V8 packed(Pair codes, Pair v, const Words& words) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  const V8 low{_mm512_packus_epi16(codes.a.raw, codes.b.raw)};
  const V8 signs{_mm512_packs_epi16(v.a.raw, v.b.raw)};
#elif HWY_TARGET == HWY_AVX2
  const V8 low{_mm256_packus_epi16(codes.a.raw, codes.b.raw)};
  const V8 signs{_mm256_packs_epi16(v.a.raw, v.b.raw)};
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_SSSE3
  const V8 low{_mm_packus_epi16(codes.a.raw, codes.b.raw)};
  const V8 signs{_mm_packs_epi16(v.a.raw, v.b.raw)};
#else
  const V8 low = hn::ConcatEven(d8, hn::BitCast(d8, codes.b), hn::BitCast(d8, codes.a));
  const V8 signs = hn::ConcatOdd(d8, hn::BitCast(d8, v.b), hn::BitCast(d8, v.a));
#endif
  // FLOOR and EVEN saturate at 448.
  const V8 q = hn::OrAnd(hn::Min(low, words.largest), signs, words.sign);
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  return V8{_mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 1, 3, 4, 6, 5, 7), q.raw)};
#elif HWY_TARGET == HWY_AVX2
  return V8{_mm256_permute4x64_epi64(q.raw, 0xD8)};
#else
  return q;
#endif
}

HWY_INLINE V lower_halves(V a, V b) {
  return hn::BitCast(d, hn::InterleaveLower(d64, hn::BitCast(d64, a), hn::BitCast(d64, b)));
}
HWY_INLINE V upper_halves(V a, V b) {
  return hn::BitCast(d, hn::InterleaveUpper(d64, hn::BitCast(d64, a), hn::BitCast(d64, b)));
}
HWY_INLINE V max_of_halves(V a, V b) { return hn::Max(lower_halves(a, b), upper_halves(a, b)); }

/// Every word becomes the largest of its 64-bit lane.
HWY_INLINE V max_of_lanes(V v) {
  v = hn::Max(v, hn::BitCast(d, hn::Shuffle2301(hn::BitCast(d32, v))));
  return hn::Max(v, hn::BitCast(d, hn::RotateRight<16>(hn::BitCast(d32, v))));
}

/// A value for each block of a group, in all words of 64-bit lanes: blocks 0 and 2 alternate in 128 bits, blocks 1
/// and 3 in the next (with 8 words: in the second vector), and so on.
struct PerBlock {
  static constexpr std::size_t kCount = kLanes == 8 ? 2 : 1;
  V vectors[kCount];
};

/// Its 64-bit lane, counted over the vectors.
constexpr std::size_t lane_of(std::size_t block) { return (block & 4) + (block & 1) * 2 + (block & 2) / 2; }

/// From the larger of each pair's vectors.
HWY_INLINE PerBlock block_maxima(const V* larger) {
#if HWY_MAX_BYTES == 64
  const V front = max_of_halves(larger[0], larger[1]);  // twice blocks 0 and 2, twice blocks 1 and 3
  const V back = max_of_halves(larger[2], larger[3]);
  const V even{_mm512_shuffle_i64x2(front.raw, back.raw, 0x88)};
  const V odd{_mm512_shuffle_i64x2(front.raw, back.raw, 0xDD)};
  return {{max_of_lanes(hn::Max(even, odd))}};
#elif HWY_MAX_BYTES == 32
  const auto both = [](V a, V b) HWY_ATTR {
    return hn::Max(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
  };
  return {{max_of_lanes(max_of_halves(both(larger[0], larger[1]), both(larger[2], larger[3])))}};
#else
  const auto block = [&](std::size_t i) HWY_ATTR { return hn::Max(larger[2 * i], larger[2 * i + 1]); };
  return {{max_of_lanes(max_of_halves(block(0), block(2))), max_of_lanes(max_of_halves(block(1), block(3)))}};
#endif
}

/// The value of its block for every word of a pair's vectors.
HWY_INLINE V for_pair(const PerBlock& values, std::size_t pair) {
#if HWY_MAX_BYTES == 64
  alignas(64) static constexpr std::uint64_t kLaneOf[kPairs][8] = {
      {0, 0, 0, 0, 2, 2, 2, 2}, {1, 1, 1, 1, 3, 3, 3, 3}, {4, 4, 4, 4, 6, 6, 6, 6}, {5, 5, 5, 5, 7, 7, 7, 7}};
  return V{_mm512_permutexvar_epi64(_mm512_load_si512(kLaneOf[pair]), values.vectors[0].raw)};
#elif HWY_MAX_BYTES == 32
  const V v = pair / 2 == 0 ? lower_halves(values.vectors[0], values.vectors[0])
                            : upper_halves(values.vectors[0], values.vectors[0]);
  return pair % 2 == 0 ? hn::ConcatLowerLower(d, v, v) : hn::ConcatUpperUpper(d, v, v);
#else
  const V v = values.vectors[pair / 2 % 2];
  return pair / 4 == 0 ? lower_halves(v, v) : upper_halves(v, v);
#endif
}

template <bool stream>
HWY_INLINE bool quantize_group(Row at, const Words& words, const Options& options) {
  Pair v[kPairs], m[kPairs];
  V larger[kPairs];
  for (std::size_t p = 0; p < kPairs; ++p) {
    v[p] = load_pair(at.in + p * 2 * kLanes);
    m[p] = {hn::And(v[p].a, words.magnitude), hn::And(v[p].b, words.magnitude)};
    larger[p] = hn::Max(m[p].a, m[p].b);
  }
  const PerBlock largest = block_maxima(larger);
  PerBlock low;
  alignas(64) std::uint16_t scales[PerBlock::kCount * kLanes];
  bool usual = true;
  for (std::size_t i = 0; i < PerBlock::kCount; ++i) {
    const V b = largest.vectors[i];
    const V rounded = hn::ShiftRight<7>(hn::Add(b, words.add));
    const V scale = hn::Max(hn::SaturatedSub(rounded, words.subtract), words.at_least);
    hn::Store(scale, d, scales + i * kLanes);
    low.vectors[i] = hn::Sub(hn::Max(scale, words.smallest_scale), words.six);
    const V outside = hn::SaturatedSub(hn::Sub(b, words.first), words.last_after_first);
    usual &= hn::AllTrue(d, hn::Eq(hn::Min(b, outside), hn::Zero(d)));
  }
  if (HWY_UNLIKELY(!usual)) return quantize_by_reference(at, kGroupBlocks, options);
  for (std::size_t p = 0; p < kPairs; ++p) {
    const V pair_low = for_pair(low, p);
    const Pair codes = {magnitudes(v[p].a, m[p].a, pair_low, words),
                        magnitudes(v[p].b, m[p].b, pair_low, words)};
    const V8 q = packed(codes, v[p], words);
    if constexpr (stream) {
      hn::Stream(q, d8, at.q + p * 2 * kLanes);
    } else {
      hn::StoreU(q, d8, at.q + p * 2 * kLanes);
    }
  }
  // Volatile, or the compiler takes the bytes out of the vector, which costs four times as much. One store, because
  // streaming stores leave little room in the store buffer.
  const volatile std::uint16_t* const stored = scales;
  std::uint64_t bytes = 0;
  for (std::size_t block = 0; block < kGroupBlocks; ++block) {
    bytes |= static_cast<std::uint64_t>(stored[lane_of(block) * 4]) << (8 * block);
  }
  std::memcpy(at.scales, &bytes, kGroupBlocks);
  return true;
}

/// `count` rows in turn, a group each. What comes next in a row is fetched into the nearest cache, and the same
/// place of `next` into the second: both together keep more lines under way than either alone.
template <std::size_t count, bool stream>
HWY_INLINE bool quantize_interleaved(const Row* rows, const Row* next, std::size_t blocks, const Words& words,
                                     const Options& options) {
  bool finite = true;
  for (std::size_t block = 0; block < blocks; block += kGroupBlocks) {
    for (std::size_t r = 0; r < count; ++r) {
      if (block % kPieceBlocks == 0) __builtin_prefetch(ahead(next[r].scales, block), 1);
      for (std::size_t line = block; line < block + kGroupBlocks; ++line) {
        __builtin_prefetch(ahead(next[r].in, line * kBlockBytes), 0, 2);
        __builtin_prefetch(ahead(rows[r].in, line * kBlockBytes + kNear), 0, 3);
      }
      finite &= quantize_group<stream>(advanced(rows[r], block), words, options);
    }
  }
  return finite;
}

/// The blocks after the last whole group of a row.
HWY_NOINLINE bool quantize_rest(Row at, std::size_t blocks, const Words& words,
                                const Options& options) {
  alignas(64) std::uint16_t in[kGroup] = {};
  alignas(64) std::uint8_t q[kGroup];
  std::uint8_t scales[kGroupBlocks];
  std::memcpy(in, at.in, blocks * kBlock * sizeof(std::uint16_t));
  const bool finite = quantize_group<false>({in, q, scales}, words, options);
  std::memcpy(at.q, q, blocks * kBlock);
  std::memcpy(at.scales, scales, blocks);
  return finite;
}

/// One row, cut into pieces of which as many as interleave are read in turn.
template <bool stream>
bool quantize_row(Row at, std::size_t blocks, const Words& words, const Options& options) {
  constexpr std::size_t together = kInterleaved * kPieceBlocks;
  bool finite = true;
  for (; blocks >= together; blocks -= together, at = advanced(at, together)) {
    Row rows[kInterleaved], next[kInterleaved];
    for (std::size_t r = 0; r < kInterleaved; ++r) {
      rows[r] = advanced(at, r * kPieceBlocks);
      next[r] = advanced(rows[r], together);
    }
    finite &= quantize_interleaved<kInterleaved, stream>(rows, next, kPieceBlocks, words, options);
  }
  const std::size_t whole = blocks / kGroupBlocks * kGroupBlocks;
  const Row next = advanced(at, kInterleaved * kPieceBlocks);
  finite &= quantize_interleaved<1, stream>(&at, &next, whole, words, options);
  if (whole < blocks) finite &= quantize_rest(advanced(at, whole), blocks - whole, words, options);
  return finite;
}

/// Rows that lie apart, as many at a time as interleave, piece by piece.
template <bool stream>
bool quantize_separate_rows(const Row* rows, std::size_t count, std::size_t blocks, const Words& words,
                            const Options& options) {
  const std::size_t whole = blocks / kGroupBlocks * kGroupBlocks;
  bool finite = true;
  std::size_t r = 0;
  for (; r + kInterleaved <= count; r += kInterleaved) {
    Row following[kInterleaved];  // after the last rows: what lies behind them in memory
    for (std::size_t i = 0; i < kInterleaved; ++i) {
      const std::size_t next = r + kInterleaved + i;
      following[i] = next < count ? rows[next] : advanced(rows[count - 1], (next - count + 1) * blocks);
    }
    for (std::size_t block = 0; block < whole; block += kPieceBlocks) {
      Row now[kInterleaved], next[kInterleaved];
      for (std::size_t i = 0; i < kInterleaved; ++i) {
        now[i] = advanced(rows[r + i], block);
        next[i] = block + kPieceBlocks < whole ? advanced(now[i], kPieceBlocks) : following[i];
      }
      const std::size_t size = std::min(kPieceBlocks, whole - block);
      finite &= quantize_interleaved<kInterleaved, stream>(now, next, size, words, options);
    }
    if (whole == blocks) continue;
    for (std::size_t i = 0; i < kInterleaved; ++i) {
      finite &= quantize_rest(advanced(rows[r + i], whole), blocks - whole, words, options);
    }
  }
  for (; r < count; ++r) finite &= quantize_row<stream>(rows[r], blocks, words, options);
  return finite;
}

bool quantize(const Row* rows, std::size_t count, std::size_t blocks, const Options& options) {
  const Words words(constants_of(options));
  if (!streams(rows, count, blocks)) return quantize_separate_rows<false>(rows, count, blocks, words, options);
  const bool finite = quantize_separate_rows<true>(rows, count, blocks, words, options);
  hwy::FlushStream();
  return finite;
}

/// The largest multiple of kScan up to which everything is finite; `count` is one.
std::size_t scan(const std::uint16_t* bf16, std::size_t count) {
  const V suspicious = hn::Set(d, 0xFEFF);  // exponent of ones, after the sign has been shifted out
  for (std::size_t at = 0; at < count; at += kScan) {
    V largest = hn::Zero(d);
    for (std::size_t i = 0; i < kScan; i += kLanes) {
      const V v = hn::LoadU(d, bf16 + at + i);
      largest = hn::Max(largest, hn::Add(v, v));
    }
    if (!hn::AllTrue(d, hn::Eq(hn::SaturatedSub(largest, suspicious), hn::Zero(d)))) return at;
  }
  return count;
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
HWY_EXPORT(scan);
HWY_EXPORT(target_name);

void require_blocks(std::size_t elements) {
  if (elements % kBlock != 0) {
    fail_input(fmt::format("Rows of {} elements cannot be quantized: MXFP8 needs multiples of {}.", elements, kBlock));
  }
}

}  // namespace

bool quantize_blocks(std::span<const std::uint16_t> in, const Options& options, std::span<std::uint8_t> q,
                     std::span<std::uint8_t> scales) {
  require_blocks(in.size());
  if (q.size() != in.size() || scales.size() != in.size() / kBlock) {
    fail_input(fmt::format("Quantizing {} elements gives as many bytes and {} scales, not {} and {}.", in.size(),
                           in.size() / kBlock, q.size(), scales.size()));
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

std::optional<std::size_t> find_non_finite(std::span<const std::uint16_t> bf16) noexcept {
  const std::size_t scanned = HWY_DYNAMIC_DISPATCH(scan)(bf16.data(), bf16.size() / kScan * kScan);
  const auto found = std::find_if_not(bf16.begin() + static_cast<std::ptrdiff_t>(scanned), bf16.end(), is_finite);
  if (found == bf16.end()) return std::nullopt;
  return static_cast<std::size_t>(found - bf16.begin());
}

}  // namespace refit::quant
#endif
