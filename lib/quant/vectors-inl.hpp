// E4M3 from BF16 in vectors of 16-bit integers: the pieces of quant/blocks.cpp, once for every instruction
// set.
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "quant/constants.hpp"

// Highway's guard: the file is read once a target.
#if defined(REFIT_QUANT_VECTORS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef REFIT_QUANT_VECTORS_INL_HPP
#undef REFIT_QUANT_VECTORS_INL_HPP
#else
#define REFIT_QUANT_VECTORS_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace refit::quant {
namespace {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::CappedTag<std::uint16_t, kBlock> d;
constexpr hn::Repartition<std::uint8_t, decltype(d)> d8;
constexpr hn::Repartition<std::uint32_t, decltype(d)> d32;
constexpr hn::Repartition<std::uint64_t, decltype(d)> d64;
using V = hn::Vec<decltype(d)>;
using V8 = hn::Vec<decltype(d8)>;
constexpr std::size_t kLanes = hn::MaxLanes(d);
// A group is four blocks in each of as many places, so that there are enough to share what is done per block.
constexpr std::size_t kPlaces = kLanes == 32 ? 2 : 1;
constexpr std::size_t kRun = 4;
constexpr std::size_t kGroupBlocks = kPlaces * kRun;

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

  V add, subtract, at_least, first, last_after_first, magnitude, smallest_scale, six, fraction, implicit_one,
      unit, half, below_half;
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
  const V power =
      hn::BitCast(d, hn::TableLookupBytesOr0(hn::LoadDup128(d8, kPowers), hn::BitCast(d8, index)));
  return hn::MulHigh(hn::Add(g, g), power);
#endif
}

/// E4M3 magnitudes, up to 0x7F, of magnitudes m (and bits v with the sign) under scale byte `low` + 6.
///
/// e = m >> 7 is the exponent, f the seven fraction bits, k = e - low + 1 the exponent field of the result.
/// Its bits are those of k:f, rounded to three fraction bits. Below k = 1 the result is subnormal: 1.f moves
/// right by 1 - k instead. Both in units of 2^-9 of the last place that stays.
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

// A pair (a, b) of vectors has the 16-bit words that become one vector of bytes, and every word of a shares
// its scale with the same word of b:
//   32 words  a = first halves of two blocks, b = second halves
//   16 words  a, b = the halves of a block
//    8 words  a, b = the quarters of half a block
struct Pair {
  V a, b;
};
constexpr std::size_t kPairs = kGroupBlocks * kBlock / (2 * kLanes);

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
#elif HWY_ARCH_ARM_A64
  const V8 low{vuzp1q_u8(hn::BitCast(d8, codes.a).raw, hn::BitCast(d8, codes.b).raw)};
  const V8 signs{vuzp2q_u8(hn::BitCast(d8, v.a).raw, hn::BitCast(d8, v.b).raw)};
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
HWY_INLINE V max_of_halves(V a, V b) {
  return hn::Max(lower_halves(a, b), upper_halves(a, b));
}

/// Every word becomes the largest of its 64-bit lane.
HWY_INLINE V max_of_lanes(V v) {
  v = hn::Max(v, hn::BitCast(d, hn::Shuffle2301(hn::BitCast(d32, v))));
  return hn::Max(v, hn::BitCast(d, hn::RotateRight<16>(hn::BitCast(d32, v))));
}

/// A value for each block of a group, in all words of 64-bit lanes: blocks 0 and 2 alternate in 128 bits,
/// blocks 1 and 3 in the next (with 8 words: in the second vector), and so on.
constexpr std::size_t kPerBlock = kLanes == 8 ? 2 : 1;
struct PerBlock {
  V vectors[kPerBlock];
};

/// Its 64-bit lane, counted over the vectors.
constexpr std::size_t lane_of(std::size_t block) {
  return (block & 4) + (block & 1) * 2 + (block & 2) / 2;
}

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
HWY_INLINE V for_pair(const V* values, std::size_t pair) {
#if HWY_MAX_BYTES == 64
  alignas(64) static constexpr std::uint64_t kLaneOf[kPairs][8] = {
      {0, 0, 0, 0, 2, 2, 2, 2}, {1, 1, 1, 1, 3, 3, 3, 3}, {4, 4, 4, 4, 6, 6, 6, 6}, {5, 5, 5, 5, 7, 7, 7, 7}};
  return V{_mm512_permutexvar_epi64(_mm512_load_si512(kLaneOf[pair]), values[0].raw)};
#elif HWY_MAX_BYTES == 32
  const V v = pair / 2 == 0 ? lower_halves(values[0], values[0]) : upper_halves(values[0], values[0]);
  return pair % 2 == 0 ? hn::ConcatLowerLower(d, v, v) : hn::ConcatUpperUpper(d, v, v);
#else
  const V v = values[pair / 2 % 2];
  return pair / 4 == 0 ? lower_halves(v, v) : upper_halves(v, v);
#endif
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace refit::quant
HWY_AFTER_NAMESPACE();

#endif
