// Ranges of bytes: fill, digest, and the pattern around tensors. One block a tile.
#include "kernels/difference.cuh"
#include "kernels/launch.hpp"
#include "kernels/mix64.cuh"

namespace refit::kernels {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kPiece = 16;  // bytes of the widest load
static_assert(kRangeTile % kPiece == 0 && kRangeTile % 8 == 0);

/// The tile of this block.
struct Part {
  std::byte* data;
  std::uint64_t begin;  ///< in the range
  std::uint32_t bytes;
};

__device__ Part part_of(const Range* ranges, Tile tile) {
  const Range range = ranges[tile.item];
  const std::uint64_t begin = tile.index * kRangeTile;
  const std::uint64_t left = range.bytes - begin;
  return {range.data + begin, begin, static_cast<std::uint32_t>(left < kRangeTile ? left : kRangeTile)};
}

/// Bytes until the next address that a piece may begin at.
__device__ std::uint32_t bytes_to_piece(const std::byte* at) {
  return static_cast<std::uint32_t>(-reinterpret_cast<std::uintptr_t>(at)) % kPiece;
}

// --- fill ----------------------------------------------------------------------------------------------

__global__ void __launch_bounds__(kThreads)
    fill_kernel(const Range* __restrict__ ranges, const Tile* __restrict__ tiles, std::uint32_t value) {
  const Part part = part_of(ranges, tiles[blockIdx.x]);
  const std::uint32_t i = threadIdx.x;
  const std::uint32_t gap = bytes_to_piece(part.data);
  const std::uint32_t before = gap < part.bytes ? gap : part.bytes;
  const std::uint32_t pieces = (part.bytes - before) / kPiece;
  const std::uint32_t behind = before + pieces * kPiece;

  const std::uint32_t word = value * 0x01010101;
  auto* const to = reinterpret_cast<uint4*>(part.data + before);
  for (std::uint32_t p = i; p < pieces; p += kThreads) to[p] = uint4{word, word, word, word};
  if (i < before) part.data[i] = static_cast<std::byte>(value);
  if (i < part.bytes - behind) part.data[behind + i] = static_cast<std::byte>(value);
}

// --- digest --------------------------------------------------------------------------------------------

/// What word number `index` of a range adds to its digest.
__device__ std::uint64_t term(std::uint64_t word, std::uint64_t index) {
  return mix64(word + (index + 1) * kGolden);
}

/// Words [first, words of the part), for any address; bytes behind the last one count as zero.
__device__ std::uint64_t terms_of_bytes(const Part& part, std::uint32_t first) {
  std::uint64_t sum = 0;
  for (std::uint32_t w = first + threadIdx.x; w * 8 < part.bytes; w += kThreads) {
    std::uint64_t word = 0;
    for (std::uint32_t b = 0; b < 8; ++b) {
      if (w * 8 + b < part.bytes) word |= static_cast<std::uint64_t>(part.data[w * 8 + b]) << 8 * b;
    }
    sum += term(word, part.begin / 8 + w);
  }
  return sum;
}

__device__ std::uint64_t terms_of_piece(ulonglong2 piece, std::uint64_t first_word) {
  return term(piece.x, first_word) + term(piece.y, first_word + 1);
}

/// The same words from an address that is a multiple of a piece. The multiplications would let few loads wait
/// at a time, so that several are asked for first.
__device__ std::uint64_t terms_of_pieces(const Part& part) {
  constexpr std::uint32_t kAtOnce = 4;
  const auto* const from = reinterpret_cast<const ulonglong2*>(part.data);
  const std::uint32_t pieces = part.bytes / kPiece;
  const std::uint64_t first_word = part.begin / 8;
  std::uint64_t sum = 0;
  std::uint32_t p = threadIdx.x;
  for (; p + (kAtOnce - 1) * kThreads < pieces; p += kAtOnce * kThreads) {
    const ulonglong2* const here = from + p;
    const std::uint64_t word = first_word + 2 * p;
    ulonglong2 loaded[kAtOnce];
    for (std::uint32_t k = 0; k < kAtOnce; ++k) loaded[k] = here[k * kThreads];
    for (std::uint32_t k = 0; k < kAtOnce; ++k) sum += terms_of_piece(loaded[k], word + 2 * k * kThreads);
  }
  for (; p < pieces; p += kThreads) sum += terms_of_piece(from[p], first_word + 2 * p);
  return sum + terms_of_bytes(part, pieces * 2);
}

/// Adds the block's sum to the total; all threads call it.
__device__ void add_of_block(std::uint64_t sum, std::uint64_t* total) {
  constexpr std::uint32_t kWarps = kThreads / 32;
  __shared__ std::uint64_t sums[kWarps];
  for (std::uint32_t distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_down_sync(0xFFFFFFFF, sum, distance);
  }
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (std::uint32_t warp = 1; warp < kWarps; ++warp) sum += sums[warp];
  atomicAdd(reinterpret_cast<unsigned long long*>(total), sum);
}

__global__ void __launch_bounds__(kThreads)
    digest_kernel(const Range* __restrict__ ranges, const Tile* __restrict__ tiles, std::uint64_t* sums) {
  const Tile tile = tiles[blockIdx.x];
  const Part part = part_of(ranges, tile);
  add_of_block(bytes_to_piece(part.data) == 0 ? terms_of_pieces(part) : terms_of_bytes(part, 0),
               sums + tile.item);
}

// --- guards --------------------------------------------------------------------------------------------

// A thread takes a byte at a time: its hash costs more than any load, and most guards are as short as a
// block.
__device__ std::uint32_t guard_byte(std::uint64_t position) {
  return mix64(position) & 0xFF;
}

__global__ void __launch_bounds__(kThreads)
    fill_guards_kernel(const Range* __restrict__ ranges, const Tile* __restrict__ tiles,
                       const std::byte* arena) {
  const Part part = part_of(ranges, tiles[blockIdx.x]);
  const std::uint64_t position = part.data - arena;
  for (std::uint32_t i = threadIdx.x; i < part.bytes; i += kThreads) {
    part.data[i] = static_cast<std::byte>(guard_byte(position + i));
  }
}

__global__ void __launch_bounds__(kThreads)
    check_guards_kernel(const Range* __restrict__ ranges, const Tile* __restrict__ tiles,
                        const std::byte* arena, Difference* differences) {
  const Tile tile = tiles[blockIdx.x];
  const Part part = part_of(ranges, tile);
  const std::uint64_t position = part.data - arena;
  Difference found;
  for (std::uint32_t i = threadIdx.x; i < part.bytes; i += kThreads) {
    judge(found, position + i, guard_byte(position + i), static_cast<std::uint32_t>(part.data[i]));
  }
  add_of_warp(found, differences + tile.item);
}

}  // namespace

void fill_ranges(const Range* ranges, const Tile* tiles, std::uint32_t tile_count, std::uint8_t value,
                 Stream stream) {
  if (tile_count == 0) return;
  fill_kernel<<<tile_count, kThreads, 0, stream>>>(ranges, tiles, value);
}

void digest_ranges(const Range* ranges, const Tile* tiles, std::uint32_t tile_count, std::uint64_t* sums,
                   Stream stream) {
  if (tile_count == 0) return;
  digest_kernel<<<tile_count, kThreads, 0, stream>>>(ranges, tiles, sums);
}

void fill_guards(const Range* ranges, const Tile* tiles, std::uint32_t tile_count, const std::byte* arena,
                 Stream stream) {
  if (tile_count == 0) return;
  fill_guards_kernel<<<tile_count, kThreads, 0, stream>>>(ranges, tiles, arena);
}

void check_guards(const Range* ranges, const Tile* tiles, std::uint32_t tile_count, const std::byte* arena,
                  Difference* differences, Stream stream) {
  if (tile_count == 0) return;
  check_guards_kernel<<<tile_count, kThreads, 0, stream>>>(ranges, tiles, arena, differences);
}

}  // namespace refit::kernels
