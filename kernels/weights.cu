// Seeded weights and an optimizer-like update: the values that lib/device/weights.cpp defines, from counters
// alone. One block a tile; a thread takes 16 bytes at a time: two words of 4 BF16, 2 FP32 or 8 bytes.
#include "kernels/launch.hpp"
#include "kernels/mix64.cuh"

namespace refit::kernels {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kBlock = 32;  // elements of one magnitude

__host__ __device__ constexpr std::uint32_t bytes_of_element(WeightKind kind) {
  return kind == WeightKind::bf16 ? 2 : kind == WeightKind::f32 ? 4 : 1;
}

/// Element i of a tensor's stream of random bits; words of several elements use the last one's.
__host__ __device__ std::uint64_t random(std::uint64_t key, std::uint64_t i) {
  return mix64(key + (i + 1) * kGolden);
}

// --- BF16 ----------------------------------------------------------------------------------------------

/// The BF16 pattern of sum * 2^-13 for the sum of four bytes, less 510, `octaves` lower unless it is zero.
__host__ __device__ std::uint64_t bell_value(std::uint32_t bits, std::uint32_t octaves) {
  const std::uint32_t sum = (bits & 0xFF) + (bits >> 8 & 0xFF) + (bits >> 16 & 0xFF) + (bits >> 24);
  const float value = static_cast<float>(static_cast<int>(sum) - 510) * 0x1p-13f;
  std::uint32_t pattern;
  memcpy(&pattern, &value, sizeof pattern);
  if (pattern == 0) return 0;
  pattern = (pattern + 0x7FFF + (pattern >> 16 & 1)) >> 16;  // to nearest even
  return pattern - (octaves << 7);
}

/// What elements of a block have in common.
struct Magnitude {
  bool dead;
  std::uint32_t octaves;
};

/// Of the block of element i.
__host__ __device__ Magnitude magnitude_of(const Weights& tensor, std::uint64_t i) {
  const std::uint64_t block = i / kBlock * kBlock;
  const std::uint64_t row = block / tensor.cols;
  const bool first_of_row = tensor.cols >= kBlock && block - row * tensor.cols < kBlock;
  return {first_of_row && row % 97 == 5, static_cast<std::uint32_t>(mix64(tensor.key ^ (block + 1)) % 24)};
}

/// Elements [i, i + 4).
__host__ __device__ std::uint64_t filled_bf16(const Weights& tensor, std::uint64_t i, Magnitude magnitude) {
  if (magnitude.dead) return 0;
  std::uint64_t word = 0;
  for (std::uint32_t pair = 0; pair < 4; pair += 2) {
    const std::uint64_t bits = random(tensor.key, i + pair + 1);
    const std::uint64_t low = bell_value(static_cast<std::uint32_t>(bits), magnitude.octaves);
    const std::uint64_t high = bell_value(static_cast<std::uint32_t>(bits >> 32), magnitude.octaves);
    word |= (low | high << 16) << 16 * pair;
  }
  return word;
}

/// Moves a magnitude by `delta` units, unless that would leave the range of ordinary values.
__host__ __device__ std::uint32_t moved_bf16(std::uint32_t value, int delta) {
  const int magnitude = static_cast<int>(value & 0x7FFF);
  const int next = magnitude + delta;
  const bool ordinary = magnitude >= 0x0380 && next >= 0x0380 && next < 0x7F00;
  return ordinary ? (value & 0x8000) | static_cast<std::uint32_t>(next) : value;
}

/// Elements [i, i + 4), of which one moves.
__host__ __device__ std::uint64_t updated_bf16(const Weights& tensor, std::uint64_t i, std::uint64_t word) {
  if (i >= tensor.elements) return word;
  const std::uint64_t bits = random(tensor.key, i + 3);
  const std::uint64_t left = tensor.elements - i;
  auto chosen = static_cast<std::uint32_t>(bits >> 62);
  if (left < 4) chosen %= static_cast<std::uint32_t>(left);
  const int delta = static_cast<int>(bits & 7) - 3;
  const auto old = static_cast<std::uint32_t>(word >> 16 * chosen & 0xFFFF);
  const std::uint64_t changed_bits = old ^ moved_bf16(old, delta == 0 ? 5 : delta);
  return word ^ changed_bits << 16 * chosen;
}

// --- FP32 and bytes ------------------------------------------------------------------------------------

/// 3 + k * 2^-22: the significand's low 14 bits alone.
__host__ __device__ std::uint64_t filled_f32(const Weights& tensor, std::uint64_t i) {
  const std::uint64_t low = 0x40400000u | (random(tensor.key, i) & 0x3FFF);
  const std::uint64_t high = 0x40400000u | (random(tensor.key, i + 1) & 0x3FFF);
  return low | high << 32;
}

/// Up while the low 14 bits have room, else down: the tensor never drifts out of its range.
__host__ __device__ std::uint32_t moved_f32(std::uint32_t value, std::uint32_t delta) {
  const std::uint32_t magnitude = value & 0x7FFFFFFF;
  const std::uint32_t next = (magnitude & 0x3FFF) + delta <= 0x3FFF ? magnitude + delta : magnitude - delta;
  return magnitude >= 0x03800000 && next < 0x7F000000 ? (value & 0x80000000) | next : value;
}

__host__ __device__ std::uint64_t updated_f32(const Weights& tensor, std::uint64_t i, std::uint64_t word) {
  std::uint64_t updated = 0;
  for (std::uint32_t e = 0; e < 2; ++e) {
    const std::uint32_t delta = static_cast<std::uint32_t>(random(tensor.key, i + e) & 0x7FF) + 1;
    const std::uint64_t moved = moved_f32(static_cast<std::uint32_t>(word >> 32 * e), delta);
    updated |= moved << 32 * e;
  }
  return updated;
}

/// Top bits clear: no NaN and no infinity in any floating format. An update gives new ones.
__host__ __device__ std::uint64_t filled_bytes(const Weights& tensor, std::uint64_t i) {
  std::uint64_t word = 0;
  for (std::uint32_t e = 0; e < 8; ++e) word |= (random(tensor.key, i + e) & 0x3F) << 8 * e;
  return word;
}

// --- 16 bytes ------------------------------------------------------------------------------------------

// From element i on; what comes behind the last one is of no concern.

__host__ __device__ ulonglong2 filled(const Weights& tensor, std::uint64_t i) {
  switch (tensor.kind) {
    case WeightKind::bf16: {
      const Magnitude magnitude = magnitude_of(tensor, i);
      return {filled_bf16(tensor, i, magnitude), filled_bf16(tensor, i + 4, magnitude)};
    }
    case WeightKind::f32:
      return {filled_f32(tensor, i), filled_f32(tensor, i + 2)};
    case WeightKind::bytes:
      break;
  }
  return {filled_bytes(tensor, i), filled_bytes(tensor, i + 8)};
}

__host__ __device__ ulonglong2 updated(const Weights& tensor, std::uint64_t i, ulonglong2 words) {
  switch (tensor.kind) {
    case WeightKind::bf16:
      return {updated_bf16(tensor, i, words.x), updated_bf16(tensor, i + 4, words.y)};
    case WeightKind::f32:
      return {updated_f32(tensor, i, words.x), updated_f32(tensor, i + 2, words.y)};
    case WeightKind::bytes:
      break;
  }
  return {filled_bytes(tensor, i), filled_bytes(tensor, i + 8)};
}

/// Two words, of which `bytes` bytes exist; only whole ones at a multiple of 16 go in one access.
__device__ ulonglong2 load(const std::byte* from, std::uint32_t bytes) {
  ulonglong2 words{0, 0};
  if (bytes == 16 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) {
    return *reinterpret_cast<const ulonglong2*>(from);
  }
  for (std::uint32_t b = 0; b < bytes; ++b) {
    (b < 8 ? words.x : words.y) |= static_cast<std::uint64_t>(from[b]) << b % 8 * 8;
  }
  return words;
}

__device__ void store(std::byte* to, std::uint32_t bytes, ulonglong2 words) {
  if (bytes == 16 && reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
    *reinterpret_cast<ulonglong2*>(to) = words;
    return;
  }
  for (std::uint32_t b = 0; b < bytes; ++b) {
    to[b] = static_cast<std::byte>((b < 8 ? words.x : words.y) >> b % 8 * 8 & 0xFF);
  }
}

/// Where element j of the runs lies, and which element of the tensor it is.
struct Spot {
  std::byte* at;
  std::uint64_t i;
};

__device__ Spot spot_of(const Weights& box, std::uint64_t j, std::uint32_t size) {
  if (box.runs == 1) return {box.data + j * size, box.first + j};
  const std::uint64_t run = j / box.run, within = j - run * box.run;
  return {box.data + run * box.pitch + within * size, box.first + run * box.cols + within};
}

/// One element of the 16 bytes that it is made with, wherever the box begins.
template <bool kUpdate>
__device__ void make_single(const Weights& box, const Spot& spot, std::uint32_t size, std::uint32_t at_once) {
  const std::uint64_t begin = spot.i / at_once * at_once;
  const std::uint32_t bit = static_cast<std::uint32_t>(spot.i - begin) * size * 8;
  ulonglong2 words;
  if constexpr (kUpdate) {
    // An element moves by its own value alone.
    const std::uint64_t own = load(spot.at, size).x;
    words = updated(box, begin, bit < 64 ? ulonglong2{own << bit, 0} : ulonglong2{0, own << (bit - 64)});
  } else {
    words = filled(box, begin);
  }
  store(spot.at, size, {bit < 64 ? words.x >> bit : words.y >> (bit - 64), 0});
}

/// Fills or updates the tile of this block.
template <bool kUpdate>
__global__ void __launch_bounds__(kThreads)
    weights_kernel(const Weights* __restrict__ weights, const Tile* __restrict__ tiles) {
  const Tile tile = tiles[blockIdx.x];
  const Weights box = weights[tile.item];
  const std::uint32_t size = bytes_of_element(box.kind);
  const std::uint32_t at_once = 16 / size;
  const std::uint64_t count = box.runs * box.run;
  const std::uint64_t begin = tile.index * kWeightTile;
  const std::uint64_t end = begin + kWeightTile < count ? begin + kWeightTile : count;
  const bool in_step =
      box.first % at_once == 0 && (box.runs == 1 || (box.run % at_once == 0 && box.cols % at_once == 0));
  if (!in_step) {
    for (std::uint64_t j = begin + threadIdx.x; j < end; j += kThreads) {
      make_single<kUpdate>(box, spot_of(box, j, size), size, at_once);
    }
    return;
  }
  for (std::uint64_t j = begin + threadIdx.x * at_once; j < end; j += kThreads * at_once) {
    const Spot spot = spot_of(box, j, size);
    const std::uint32_t bytes = end - j < at_once ? static_cast<std::uint32_t>(end - j) * size : 16;
    if constexpr (kUpdate) {
      store(spot.at, bytes, updated(box, spot.i, load(spot.at, bytes)));
    } else {
      store(spot.at, bytes, filled(box, spot.i));
    }
  }
}

}  // namespace

void fill_weights(const Weights* weights, const Tile* tiles, std::uint32_t tile_count, Stream stream) {
  if (tile_count == 0) return;
  weights_kernel<false><<<tile_count, kThreads, 0, stream>>>(weights, tiles);
}

void update_weights(const Weights* weights, const Tile* tiles, std::uint32_t tile_count, Stream stream) {
  if (tile_count == 0) return;
  weights_kernel<true><<<tile_count, kThreads, 0, stream>>>(weights, tiles);
}

}  // namespace refit::kernels
