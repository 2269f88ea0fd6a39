// One launch for a list of tasks: copies, quantizes and lays scales out, one tile a block.
//
// Bytes moved: each source byte read once, each destination byte written once (an element that is quantized:
// 2 + 1 + 1/32); beside them 4 bytes a tile, and units, parts and row maps, which stay in the L2 cache. The
// floor is a device-to-device copy of as many bytes.
//
// The eight warps of a block work alone, without barriers, so that some load while others store. A warp takes
// 16 lines of up to 512 source bytes, 16 bytes a lane: of a flat tile a contiguous eighth, of a tile of rows
//
//   line l = row 4 w + l / 4 + 32 (l % 4)     so that warp w's scales are 64 contiguous bytes of every 128x4
//                                             tile: bytes 64 w + 4 l are those of line l
#include "kernels/grouped.hpp"

#include <cuda_pipeline_primitives.h>

#include "kernels/quantize.cuh"

namespace refit::kernels {
namespace {

// Lines that a warp has under way, and blocks of a multiprocessor that registers are left for: together the
// bytes in flight, which have to cover the memory's latency under load. They wait in shared memory, because
// registers would not hold as many.
constexpr unsigned kInFlight = 8;
#if __CUDA_ARCH__ == 900
constexpr unsigned kBlocksPerMultiprocessor = 6;
#else
constexpr unsigned kBlocksPerMultiprocessor = 4;  // as many as sm_80 has shared memory for
#endif

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / kWarpLanes;
constexpr unsigned kLines = 16;  // of a warp
constexpr unsigned kStride = 4;  // lines that a warp moves on by
constexpr unsigned kLineSourceBytes = 512;
constexpr unsigned kLineScales = kTileElements / kBlockElements;
constexpr unsigned kLineWords = kTileScales / 4;  // of a line of scales
constexpr unsigned kLinePitch = kLineWords + 1;   // odd, so that lines fall into different banks
static_assert(kWarps * kLines == kTileRows && kFlatBytes == kTileRows * kTileBytes);
static_assert(kTileBytes == kLineSourceBytes && kTileElements * 2 == kLineSourceBytes);
static_assert(kLines * kLinePitch * 4 <= kInFlight * kLineSourceBytes,
              "scales pass through the lines' place");
static_assert(kInFlight % kStride == 0 && kLines % kStride == 0);
static_assert(kWarps == 8 && kLines == 16, "the order of lines is made for 128x4 tiles");

struct Work {
  const Unit* units;
  const UnitPart* parts;
  const std::uint32_t* tile_units;
  unsigned long long* first_non_finite;
  std::uint64_t id_base;
};

// --- memory ---------------------------------------------------------------------------------------------

/// Read once, not kept in L1.
__device__ inline uint4 load_once(const std::byte* from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

/// Until at most `groups` of the thread's groups of asynchronous copies are under way. (CUDA's own intrinsic
/// does not keep the compiler from loading before it.)
template <unsigned groups>
__device__ inline void wait_for_all_but() {
  asm volatile("cp.async.wait_group %0;" : : "n"(groups) : "memory");
}

template <class T>
__device__ inline T load(const std::byte* from) {
  return __ldg(reinterpret_cast<const T*>(from));
}

/// Not read again here: the first to leave the cache.
template <class T>
__device__ inline void store_once(std::byte* to, const T& v) {
  __stcs(reinterpret_cast<T*>(to), v);
}

/// The first `count` bytes of a word.
__device__ inline void store_word(std::byte* to, std::uint32_t word, unsigned count, bool aligned) {
  if (aligned && count == 4) {
    return store_once(to, word);
  }
#pragma unroll 1
  for (unsigned i = 0; i < count; ++i) to[i] = static_cast<std::byte>(word >> (8 * i));
}

__device__ inline std::uint32_t load_word(const std::byte* from, unsigned count) {
  std::uint32_t word = 0;
#pragma unroll 1
  for (unsigned i = 0; i < count; ++i) word |= static_cast<std::uint32_t>(from[i]) << (8 * i);
  return word;
}

__device__ inline unsigned offset_in(const std::byte* p, unsigned alignment) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(p) % alignment);
}

// --- lines ----------------------------------------------------------------------------------------------

struct SourceRow {
  const std::byte* from = nullptr;  ///< null: no part feeds this row, which stays as it is
  std::uint32_t task = 0, row = 0;  ///< row of the task
};

__device__ inline SourceRow find_row(const Unit& unit, const UnitPart* parts, std::uint32_t stored) {
  if (stored >= unit.end_row) return {};
  const std::uint32_t canonical = unit.source_rows == nullptr ? stored : __ldg(unit.source_rows + stored);
  const UnitPart* const end = parts + unit.first_part + unit.parts;
  for (const UnitPart* part = parts + unit.first_part; part < end; ++part) {
    const std::uint32_t row = canonical - part->row_begin;
    if (row < part->rows) return {part->from + row * unit.stride, part->task, row};
  }
  return {};
}

__device__ inline bool is_flat(const Unit& unit) {
  return unit.kind == UnitKind::flat_bytes || unit.kind == UnitKind::flat_quantize;
}

/// Row of a tile.
__device__ inline unsigned row_of_line(unsigned warp, unsigned line) {
  return 4 * warp + line / 4 + 32 * (line % 4);
}

/// A warp's part of a tile.
struct Lines {
  unsigned warp, lane;
  std::uint32_t row = 0;                         ///< the tile's first row; flat: number of the first line
  std::uint32_t column = 0;                      ///< number of the column tile
  const std::byte* from = nullptr;               ///< lane l: where line l comes from; null: nowhere
  std::byte* to = nullptr;                       ///< where line 0 goes
  std::uint32_t row_step = 0, quarter_step = 0;  ///< line l: to + l / 4 * row_step + l % 4 * quarter_step
  unsigned fed = 0;                              ///< bit l: line l has a source
  unsigned mine = 0;                             ///< bit l: the lane has a part in line l
  unsigned first = 0;                            ///< number of the line that the functions call 0

  /// Every lane of the warp calls this.
  [[nodiscard]] __device__ const std::byte* source(unsigned line) const {
    return reinterpret_cast<const std::byte*>(
        __shfl_sync(kWholeWarp, reinterpret_cast<unsigned long long>(from), static_cast<int>(first + line)));
  }
  [[nodiscard]] __device__ std::byte* destination(unsigned line) const {
    return to + (line / kStride * row_step + line % kStride * quarter_step);
  }
  [[nodiscard]] __device__ bool has(unsigned line) const { return (mine >> line & 1) != 0; }
  __device__ void advance() {
    first += kStride;
    to += row_step;
    mine >>= kStride;
  }
};

/// Sources of a tile of rows; `from` is the row's first byte.
__device__ inline void find_rows(Lines& lines, const Unit& unit, const UnitPart* parts, std::uint32_t index) {
  lines.column = index % unit.column_tiles;
  lines.row = unit.first_row + index / unit.column_tiles * kTileRows;
  if (lines.lane < kLines) {
    lines.from = find_row(unit, parts, lines.row + row_of_line(lines.warp, lines.lane)).from;
  }
  lines.fed = __ballot_sync(kWholeWarp, lines.from != nullptr);
}

/// Lines of `line` destination bytes, of which a lane has line / 32 (what is left of the last is nobody's).
template <unsigned line>
__device__ inline Lines lines_of(const Unit& unit, const UnitPart* parts, std::uint32_t index) {
  constexpr unsigned per_lane = line / kWarpLanes;
  Lines lines = {threadIdx.x / kWarpLanes, threadIdx.x % kWarpLanes};
  const unsigned lane_end = (lines.lane + 1) * per_lane;
  if (is_flat(unit)) {
    lines.row = (index * kWarps + lines.warp) * kLines;
    lines.from = unit.from + (std::uint64_t{lines.row} + lines.lane % kLines) * kLineSourceBytes;
    const std::uint64_t begin = std::uint64_t{lines.row} * line;
    lines.to = unit.values + begin;
    lines.row_step = 4 * line;
    lines.quarter_step = line;
    if (begin + lane_end <= unit.size) {
      const std::uint64_t whole = (unit.size - begin - lane_end) / line + 1;
      lines.mine = (1u << min(whole, std::uint64_t{kLines})) - 1;
    }
    return lines;
  }
  find_rows(lines, unit, parts, index);
  const std::uint32_t begin = lines.column * line;
  if (lines.from != nullptr) lines.from += begin * (kLineSourceBytes / line);
  lines.to = unit.values + std::uint64_t{lines.row + 4 * lines.warp} * unit.pitch + begin;
  lines.row_step = unit.pitch;
  lines.quarter_step = 32 * unit.pitch;
  if (begin + lane_end <= unit.width) lines.mine = lines.fed;
  return lines;
}

/// step(lines, i, the lane's 16 source bytes) for every line: line i of `lines`, which is moved on by four
/// lines at a time. The bytes are zeros where the lane has no part. A lane reads back only what it fetched
/// itself, so that nobody waits for another.
template <class Step>
__device__ inline void for_each_line(Lines lines, uint4* staging, const Step& step) {
  std::byte* const own = reinterpret_cast<std::byte*>(staging + lines.lane);
  const auto fetch = [&](unsigned line, std::byte* to) {
    const std::byte* const from = lines.source(line) + 16 * lines.lane;
    __pipeline_memcpy_async(to, from, 16, lines.has(line) ? 0 : 16);
    __pipeline_commit();
  };
#pragma unroll
  for (unsigned i = 0; i < kInFlight; ++i) fetch(i, own + i * kLineSourceBytes);
#pragma unroll 1
  for (; lines.first < kLines; lines.advance()) {
    std::byte* const slots = own + lines.first % kInFlight * kLineSourceBytes;
#pragma unroll
    for (unsigned i = 0; i < kStride; ++i) {
      std::byte* const slot = slots + i * kLineSourceBytes;
      wait_for_all_but<kInFlight - 1>();
      step(lines, i, *reinterpret_cast<const uint4*>(slot));
      fetch(i + kInFlight, slot);  // zeros beyond the last
    }
  }
}

// --- bytes ----------------------------------------------------------------------------------------------

/// Bytes that are contiguous on both sides, moved by a warp.
struct Bytes {
  std::byte* to;
  const std::byte* from;
  unsigned count, lane;
};

__device__ inline void copy_single_bytes(const Bytes& what, unsigned begin, unsigned end) {
#pragma unroll 1
  for (unsigned i = begin + what.lane; i < end; i += kWarpLanes) what.to[i] = what.from[i];
}

/// Items [0, count) of type T: the loads of a batch before its first store.
template <class T, class Load, class Store>
__device__ inline void in_batches(unsigned lane, unsigned count, const Load& load_item,
                                  const Store& store_item) {
  constexpr unsigned batch = 4;
#pragma unroll 1
  for (unsigned first = lane; first < count; first += batch * kWarpLanes) {
    T items[batch] = {};
#pragma unroll
    for (unsigned i = 0; i < batch; ++i) {
      if (first + i * kWarpLanes < count) items[i] = load_item(first + i * kWarpLanes);
    }
#pragma unroll
    for (unsigned i = 0; i < batch; ++i) {
      if (first + i * kWarpLanes < count) store_item(first + i * kWarpLanes, items[i]);
    }
  }
}

/// Source and destination lie alike between 16-byte boundaries.
__device__ inline void copy_vectors(const Bytes& what) {
  const unsigned head = min(what.count, (16 - offset_in(what.to, 16)) % 16);
  const unsigned vectors = (what.count - head) / 16;
  copy_single_bytes(what, 0, head);
  in_batches<uint4>(
      what.lane, vectors, [&](unsigned i) { return load_once(what.from + head + 16 * i); },
      [&](unsigned i, const uint4& v) { store_once(what.to + head + 16 * i, v); });
  copy_single_bytes(what, head + 16 * vectors, what.count);
}

/// Any alignment: every word that is stored comes from two that are loaded. At least four bytes at either end
/// go singly, so that no load leaves the source.
__device__ inline void copy_shifted_words(const Bytes& what) {
  const unsigned head = 4 + (4 - offset_in(what.to, 4)) % 4;
  const unsigned words = what.count < head + 4 ? 0 : (what.count - head - 4) / 4;
  if (words == 0) return copy_single_bytes(what, 0, what.count);
  const unsigned shift = offset_in(what.from + head, 4);
  const std::byte* const from = what.from + head - shift;
  copy_single_bytes(what, 0, head);
  in_batches<std::uint32_t>(
      what.lane, words,
      [&](unsigned i) {
        return __funnelshift_r(load<std::uint32_t>(from + 4 * i), load<std::uint32_t>(from + 4 * i + 4),
                               8 * shift);
      },
      [&](unsigned i, std::uint32_t v) { store_once(what.to + head + 4 * i, v); });
  copy_single_bytes(what, head + 4 * words, what.count);
}

/// The same bits as quant::bf16_value(quant::bf16_from_float(x)).
__device__ inline std::uint32_t through_bf16(std::uint32_t bits) {
  const bool nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return (nan ? bits | 0x00400000 : bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000;
}

__device__ inline void round_floats(const Bytes& what) {
  const unsigned floats = what.count / 4;
  if (offset_in(what.to, 4) == 0 && offset_in(what.from, 4) == 0) {
    return in_batches<std::uint32_t>(
        what.lane, floats, [&](unsigned i) { return load<std::uint32_t>(what.from + 4 * i); },
        [&](unsigned i, std::uint32_t bits) { store_once(what.to + 4 * i, through_bf16(bits)); });
  }
#pragma unroll 1
  for (unsigned i = what.lane; i < floats; i += kWarpLanes) {
    store_word(what.to + 4 * i, through_bf16(load_word(what.from + 4 * i, 4)), 4, false);
  }
}

__device__ inline void zero_bytes(const Bytes& what) {
  const bool aligned = offset_in(what.to, 4) == 0;
#pragma unroll 1
  for (unsigned i = 4 * what.lane; i < what.count; i += 4 * kWarpLanes) {
    store_word(what.to + i, 0, min(what.count - i, 4u), aligned);
  }
}

__device__ inline void move_bytes(const Bytes& what, Change change) {
  switch (change) {
    case Change::none:
      if (offset_in(what.to, 16) == offset_in(what.from, 16)) return copy_vectors(what);
      return copy_shifted_words(what);
    case Change::round_bf16:
      return round_floats(what);
    case Change::zero:
      return zero_bytes(what);
  }
}

/// What the fast path does not take: other alignments, and changes.
__device__ inline void move_slowly(const Lines& lines, const Unit& unit) {
  const Change change = unit.change;
  if (is_flat(unit)) {
    const std::uint64_t begin = std::uint64_t{lines.row} * kTileBytes;
    const std::uint64_t left = begin < unit.size ? unit.size - begin : 0;
    const auto count = static_cast<unsigned>(min(left, std::uint64_t{kLines * kTileBytes}));
    return move_bytes({lines.to, unit.from + begin, count, lines.lane}, change);
  }
  const unsigned count = min(kTileBytes, unit.width - lines.column * kTileBytes);
#pragma unroll 1
  for (unsigned line = 0; line < kLines; ++line) {
    const std::byte* const from = lines.source(line);
    if (from != nullptr) move_bytes({lines.destination(line), from, count, lines.lane}, change);
  }
}

__device__ void move_tile(const Unit& unit, const UnitPart* parts, std::uint32_t index, uint4* staging) {
  const Lines lines = lines_of<kTileBytes>(unit, parts, index);
  if (!unit.wide) return move_slowly(lines, unit);
  for_each_line(lines, staging, [](const Lines& now, unsigned line, const uint4& v) {
    if (now.has(line)) store_once(now.destination(line) + 16 * now.lane, v);
  });
}

// --- quantize -------------------------------------------------------------------------------------------

template <bool wide>
__device__ inline uint4 load_elements(const std::byte* from) {
  if constexpr (wide) {
    return load_once(from);
  } else {
    const auto pair = [from](unsigned i) {
      const std::uint32_t high = load<std::uint16_t>(from + 4 * i + 2);
      return load<std::uint16_t>(from + 4 * i) | high << 16;
    };
    return {pair(0), pair(1), pair(2), pair(3)};
  }
}

template <bool wide>
__device__ inline void store_codes(std::byte* to, const Codes& codes) {
  if constexpr (wide) {
    store_once(to, codes);
  } else {
    store_word(to, codes.x, 4, false);
    store_word(to + 4, codes.y, 4, false);
  }
}

/// Quantizes a warp's lines and leaves line l's scales in bytes [8 l, 8 l + 8) of `scales`, 0 where there are
/// no elements. Returns which lines have an unusual block (bit l), whose bytes are not valid.
template <bool wide>
__device__ inline unsigned quantize_lines(const Lines& lines, const QuantRule& rule, std::uint8_t* scales,
                                          uint4* staging) {
  unsigned unusual = 0;
  const auto step = [&](const Lines& now, unsigned line, const uint4& in) {
    const Quantized result = quantize_usual(in, rule);
    if (__any_sync(kWholeWarp, result.unusual)) unusual |= 1u << (now.first + line);
    if (now.has(line)) store_codes<wide>(now.destination(line) + kLaneElements * now.lane, result.codes);
    if (now.lane % kBlockLanes == 0) {
      scales[(now.first + line) * kLineScales + now.lane / kBlockLanes] = now.has(line) ? result.scale : 0;
    }
  };
  if constexpr (wide) {
    for_each_line(lines, staging, step);
  } else {
#pragma unroll 1
    for (unsigned line = 0; line < kLines; ++line) {
      const std::byte* const from = lines.source(line) + 2 * kLaneElements * lines.lane;
      step(lines, line, lines.has(line) ? load_elements<wide>(from) : uint4{0, 0, 0, 0});
    }
  }
  return unusual;
}

/// (id_base + task) << 36 | element of the task, for the lane's first element of a line.
__device__ inline unsigned long long element_id(const Lines& lines, const Unit& unit, const Work& work,
                                                unsigned line) {
  std::uint64_t task = unit.task, element = 0;
  if (is_flat(unit)) {
    element = (std::uint64_t{lines.row} + line) * kTileElements;
  } else {
    const SourceRow row = find_row(unit, work.parts, lines.row + row_of_line(lines.warp, line));
    task = row.task;
    element = std::uint64_t{row.row} * unit.width + lines.column * kTileElements;
  }
  return (work.id_base + task) << 36 | (element + lines.lane * kLaneElements);
}

/// Lines with unusual blocks once more, and the first element that is not finite. Not at once, so that usual
/// blocks need not keep registers for it.
__device__ inline void quantize_again(const Lines& lines, unsigned which, const Unit& unit,
                                      std::uint8_t* scales, const Work& work) {
  const QuantRule rule = unit.rule;
  const bool wide = unit.wide;
#pragma unroll 1
  for (; which != 0; which &= which - 1) {
    const unsigned line = __ffs(static_cast<int>(which)) - 1;
    const std::byte* const from = lines.source(line) + 2 * kLaneElements * lines.lane;
    uint4 in = {0, 0, 0, 0};
    if (lines.has(line)) in = wide ? load_elements<true>(from) : load_elements<false>(from);
    const Quantized result = quantize_unusual(in, rule);
    if (!lines.has(line)) continue;
    std::byte* const to = lines.destination(line) + kLaneElements * lines.lane;
    if (wide) {
      store_codes<true>(to, result.codes);
    } else {
      store_codes<false>(to, result.codes);
    }
    if (lines.lane % kBlockLanes == 0) scales[line * kLineScales + lines.lane / kBlockLanes] = result.scale;
    const unsigned bad = non_finite_elements(in);
    if (bad == 0 || !rule.refuses_non_finite) continue;
    const unsigned long long id = element_id(lines, unit, work, line) + __ffs(static_cast<int>(bad)) - 1;
    if (id < *static_cast<volatile unsigned long long*>(work.first_non_finite)) {
      atomicMin(work.first_non_finite, id);
    }
  }
}

/// Line l's words (l, tile) of a warp go to bytes [64 w + 4 l, ..) of the 128x4 tile.
__device__ inline std::byte* in_scale_tile(const Unit& unit, const Lines& lines, std::uint32_t tile,
                                           unsigned line) {
  const std::uint64_t tiles_of_a_row = (unit.scale_cols + 3) / 4;
  return unit.scales + (lines.row / kTileRows * tiles_of_a_row + tile) * 512 + 64 * lines.warp + 4 * line;
}

/// `count` scales of a line from column `column` of the unit on, 1 to 4 in `word`, whose other bytes are 0.
/// They may begin anywhere in a tile. After the last column of the stored row its tile is filled up with
/// zeros.
__device__ inline void store_in_tiles(const Unit& unit, const Lines& lines, std::uint32_t column,
                                      unsigned line, std::uint32_t word, unsigned count) {
  const std::uint32_t at = unit.scale_col + column;
  const bool ends_row = at + count == unit.scale_cols;
  if (unit.scale_words && (count == 4 || ends_row)) {
    return store_once(in_scale_tile(unit, lines, at / 4, line), word);
  }
  const unsigned padding = ends_row ? (4 - unit.scale_cols % 4) % 4 : 0;
#pragma unroll 1
  for (unsigned i = 0; i < count + padding; ++i) {
    const std::uint32_t byte = i < count ? word >> (8 * i) : 0;
    in_scale_tile(unit, lines, (at + i) / 4, line)[(at + i) % 4] = static_cast<std::byte>(byte);
  }
}

__device__ inline void store_scales(const Lines& lines, const Unit& unit, const std::uint32_t* words) {
  if (is_flat(unit)) {
    const std::uint64_t first = std::uint64_t{lines.row} * kLineScales + 4 * lines.lane;
    const std::uint64_t end = unit.size / kBlockElements;
    if (first >= end) return;
    const auto count = static_cast<unsigned>(min(end - first, std::uint64_t{4}));
    return store_word(unit.scales + first, words[lines.lane], count, unit.scale_words);
  }
  const unsigned line = lines.lane % kLines, half = lines.lane / kLines;
  const std::uint32_t own_cols = unit.width / kBlockElements;
  const std::uint32_t column = lines.column * kLineScales + 4 * half;
  if (column >= own_cols || (lines.fed >> line & 1) == 0) return;
  const std::uint32_t word = words[2 * line + half];
  const unsigned count = min(own_cols - column, 4u);
  if (unit.scale_layout == ScaleLayout::tiled_128x4) {
    return store_in_tiles(unit, lines, column, line, word, count);
  }
  const std::uint64_t row = lines.row + row_of_line(lines.warp, line);
  store_word(unit.scales + row * unit.scale_cols + unit.scale_col + column, word, count, unit.scale_words);
}

__device__ void quantize_tile(const Unit& unit, std::uint32_t index, uint4* staging, std::uint32_t* words,
                              const Work& work) {
  const Lines lines = lines_of<kTileElements>(unit, work.parts, index);
  auto* const scales = reinterpret_cast<std::uint8_t*>(words);
  const QuantRule rule = unit.rule;
  const unsigned unusual = unit.wide ? quantize_lines<true>(lines, rule, scales, staging)
                                     : quantize_lines<false>(lines, rule, scales, staging);
  if (unusual != 0) quantize_again(lines, unusual, unit, scales, work);
  __syncwarp();
  store_scales(lines, unit, words);
}

// --- scales ---------------------------------------------------------------------------------------------

/// Through shared memory, so that both sides are contiguous: half a warp loads a line, and stores 64 bytes of
/// a tile.
__device__ void lay_scales_out(const Unit& unit, std::uint32_t index, std::uint32_t* shared,
                               const Work& work) {
  constexpr unsigned half_warp = kWarpLanes / 2;
  static_assert(half_warp == kLineWords && half_warp == kLines);
  Lines lines = {threadIdx.x / kWarpLanes, threadIdx.x % kWarpLanes};
  find_rows(lines, unit, work.parts, index);
  const unsigned half = lines.lane / half_warp, lane = lines.lane % half_warp;
  const std::uint32_t width = unit.width;
  const std::uint32_t first = lines.column * kTileScales;
  const std::uint32_t column = first + 4 * lane;
  const unsigned count = unit.change == Change::zero || column >= width ? 0 : min(width - column, 4u);
  std::uint32_t* const own = shared + half * kLinePitch + lane;
  if (unit.wide) {
    std::uint32_t words[kLines / 2];
#pragma unroll
    for (unsigned i = 0; i < kLines / 2; ++i) {
      const std::byte* const from = lines.source(2 * i + half);
      words[i] = from != nullptr && count != 0 ? load<std::uint32_t>(from + column) : 0;
    }
#pragma unroll
    for (unsigned i = 0; i < kLines / 2; ++i) own[2 * i * kLinePitch] = words[i];
  } else {
#pragma unroll 1
    for (unsigned i = 0; i < kLines / 2; ++i) {
      const std::byte* const from = lines.source(2 * i + half);
      own[2 * i * kLinePitch] = from != nullptr ? load_word(from + column, count) : 0;
    }
  }
  __syncwarp();
  if ((lines.fed >> lane & 1) == 0) return;
  const unsigned tiles = min((width - first + 3) / 4, kLineWords);
  for (unsigned t = half; t < tiles; t += 2) {
    const std::uint32_t at = first + 4 * t;
    store_in_tiles(unit, lines, at, lane, shared[lane * kLinePitch + t], min(width - at, 4u));
  }
}

// --- all ------------------------------------------------------------------------------------------------

__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    grouped(const __grid_constant__ Work work) {
  __shared__ uint4 staging[kWarps][kInFlight * kWarpLanes];
  __shared__ std::uint32_t words[kWarps][kLines * kLineScales / 4];
  const unsigned warp = threadIdx.x / kWarpLanes;
  const Unit& unit = work.units[work.tile_units[blockIdx.x]];
  const std::uint32_t index = blockIdx.x - unit.first_tile;
  switch (unit.kind) {
    case UnitKind::flat_bytes:
    case UnitKind::rows_bytes:
      return move_tile(unit, work.parts, index, staging[warp]);
    case UnitKind::flat_quantize:
    case UnitKind::rows_quantize:
      return quantize_tile(unit, index, staging[warp], words[warp], work);
    case UnitKind::rows_scales:
      return lay_scales_out(unit, index, reinterpret_cast<std::uint32_t*>(staging[warp]), work);
  }
}

}  // namespace

void run_grouped(const GroupedShape& shape, const std::byte* device_blob,
                 unsigned long long* first_non_finite, std::uint64_t id_base, Stream stream) {
  if (shape.tile_count == 0) return;
  const Work work = {reinterpret_cast<const Unit*>(device_blob + shape.units),
                     reinterpret_cast<const UnitPart*>(device_blob + shape.parts),
                     reinterpret_cast<const std::uint32_t*>(device_blob + shape.tile_units), first_non_finite,
                     id_base};
  // Little here needs L1, and shared memory decides how many blocks a multiprocessor takes.
  cudaFuncSetAttribute(grouped, cudaFuncAttributePreferredSharedMemoryCarveout,
                       cudaSharedmemCarveoutMaxShared);
  grouped<<<shape.tile_count, kThreads, 0, stream>>>(work);
}

}  // namespace refit::kernels
