// Fill and update: one hash of a counter gives the bits of one 64-bit word.
#include "refit/device/weights.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "refit/base/digest.hpp"
#include "refit/quant/mxfp8.hpp"

namespace refit::device {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ull;
/// Bytes of a tensor that one thread takes at a time; a multiple of every word and block.
constexpr std::uint64_t kGrain = 1u << 20;

/// The BF16 pattern of sum * 2^-13 for a sum of four bytes, less 510: what a random word becomes.
using BellValues = std::array<std::uint16_t, 1021>;
const BellValues& bell_values() {
  static const BellValues table = [] {
    BellValues values{};
    for (int i = 0; i < 1021; ++i) {
      values[static_cast<std::size_t>(i)] = quant::bf16_from_float(static_cast<float>(i - 510) * 0x1p-13f);
    }
    return values;
  }();
  return table;
}

std::uint16_t lowered(std::uint16_t value, std::uint16_t octaves_down) {
  return (value & 0x7FFF) == 0 ? value : static_cast<std::uint16_t>(value - (octaves_down << 7));
}

/// Elements `pair` and the one behind it: the sums of the four bytes of either half of a word.
std::array<std::uint16_t, 2> bell_pair(const BellValues& bell, std::uint64_t key, std::uint64_t pair,
                                       std::uint16_t octaves_down) {
  constexpr std::uint64_t kEvenBytes = 0x00FF00FF00FF00FF;
  const std::uint64_t word = mix64(key + (pair + 2) * kGolden);
  const std::uint64_t twos = (word & kEvenBytes) + (word >> 8 & kEvenBytes);
  const std::uint64_t fours = twos + (twos >> 16);
  return {lowered(bell[fours & 0xFFFF], octaves_down), lowered(bell[fours >> 32 & 0xFFFF], octaves_down)};
}

// `at` is where element `begin` lies; elements count through the whole tensor.

/// Elements [begin, end) of a BF16 tensor of `cols` columns.
void fill_bf16_range(std::byte* at, std::uint64_t key, std::uint64_t cols, std::uint64_t begin,
                     std::uint64_t end) {
  const BellValues& bell = bell_values();
  for (std::uint64_t i = begin; i < end;) {
    const std::uint64_t block = i / quant::kBlock * quant::kBlock;
    // Blocks differ in magnitude by up to 2^23, so that a scale in a wrong place is a wrong scale.
    const auto octaves = static_cast<std::uint16_t>(mix64(key ^ (block + 1)) % 24);
    const bool dead = cols >= quant::kBlock && block / cols % 97 == 5 && block % cols < quant::kBlock;
    const std::uint64_t stop = std::min<std::uint64_t>(end, block + quant::kBlock);
    if (dead) {
      std::memset(at + (i - begin) * 2, 0, (stop - i) * 2);
      i = stop;
    }
    while (i < stop) {
      const std::uint64_t pair = i / 2 * 2;
      const std::array<std::uint16_t, 2> values = bell_pair(bell, key, pair, octaves);
      if (i == pair && i + 2 <= stop) {
        std::memcpy(at + (i - begin) * 2, values.data(), 4);
        i += 2;
      } else {  // half of a pair, at either end
        std::memcpy(at + (i - begin) * 2, &values[i - pair], 2);
        ++i;
      }
    }
  }
}

void fill_f32_range(std::byte* at, std::uint64_t key, std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t i = begin; i < end; ++i) {
    // 3 + k * 2^-22: the significand's low 14 bits alone, so that a cast to BF16 loses every one of them.
    const std::uint32_t bits =
        0x40400000u | static_cast<std::uint32_t>(mix64(key + (i + 1) * kGolden) & 0x3FFF);
    std::memcpy(at + (i - begin) * 4, &bits, 4);
  }
}

void fill_other_range(std::byte* at, std::uint64_t key, std::uint64_t begin, std::uint64_t end) {
  // Bytes with the top bits clear: no NaN and no infinity in any floating format, small in any integer one.
  for (std::uint64_t i = begin; i < end; ++i) {
    at[i - begin] = static_cast<std::byte>(mix64(key + (i + 1) * kGolden) & 0x3F);
  }
}

/// Moves a magnitude by `delta` units, unless that would leave the range of ordinary values.
std::uint16_t moved_bf16(std::uint16_t value, int delta) {
  const int magnitude = value & 0x7FFF;
  const int next = magnitude + delta;
  const bool ordinary = magnitude >= 0x0380 && next >= 0x0380 && next < 0x7F00;
  return ordinary ? static_cast<std::uint16_t>((value & 0x8000) | next) : value;
}

/// Of a tensor of `elements`.
void update_bf16_range(std::byte* at, std::uint64_t key, std::uint64_t elements, std::uint64_t begin,
                       std::uint64_t end) {
  for (std::uint64_t four = begin / 4 * 4; four < end; four += 4) {
    const std::uint64_t bits = mix64(key + (four + 4) * kGolden);
    const std::uint64_t rest = elements - four;
    const std::uint64_t i = four + (rest >= 4 ? bits >> 62 : (bits >> 62) % rest);
    if (i < begin || i >= end) continue;  // somebody else's
    std::uint16_t value;
    std::memcpy(&value, at + (i - begin) * 2, 2);
    const int delta = static_cast<int>(bits & 7) - 3;
    value = moved_bf16(value, delta == 0 ? 5 : delta);
    std::memcpy(at + (i - begin) * 2, &value, 2);
  }
}

void update_f32_range(std::byte* at, std::uint64_t key, std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t i = begin; i < end; ++i) {
    std::uint32_t value;
    std::memcpy(&value, at + (i - begin) * 4, 4);
    const std::uint32_t magnitude = value & 0x7FFFFFFF;
    const std::uint32_t delta = static_cast<std::uint32_t>(mix64(key + (i + 1) * kGolden) & 0x7FF) + 1;
    // Up while the low 14 bits have room, else down: the tensor never drifts out of its range.
    const std::uint32_t next = (magnitude & 0x3FFF) + delta <= 0x3FFF ? magnitude + delta : magnitude - delta;
    if (magnitude >= 0x03800000 && next < 0x7F000000) value = (value & 0x80000000) | next;
    std::memcpy(at + (i - begin) * 4, &value, 4);
  }
}

/// body(box, where element `begin` lies, begin, end) for ranges of elements that follow each other in memory.
template <typename Body>
void for_each_range(std::span<const WeightBox> boxes, ThreadPool& pool, const Body& body) {
  struct Piece {
    const WeightBox* box;
    std::byte* at;
    std::uint64_t begin, end;
  };
  std::vector<Piece> pieces;
  for (const WeightBox& box : boxes) {
    const std::size_t size = size_of(box.tensor->dtype);
    const std::uint64_t grain = kGrain / size;
    const std::uint64_t runs = box.is_one_run() ? std::min<std::uint64_t>(1, box.rows) : box.rows;
    const std::uint64_t length = box.is_one_run() ? box.rows * box.cols : box.cols;
    for (std::uint64_t run = 0; run < runs; ++run) {
      const std::uint64_t first = (box.row + run) * box.tensor->cols() + box.col;
      for (std::uint64_t done = 0; done < length; done += grain) {
        pieces.push_back({&box, box.data + run * box.pitch + done * size, first + done,
                          first + std::min(length, done + grain)});
      }
    }
  }
  pool.for_range(pieces.size(), 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t p = first; p < last; ++p) {
      const Piece& piece = pieces[p];
      body(*piece.box, piece.at, piece.begin, piece.end);
    }
  });
}

}  // namespace

std::vector<WeightBox> weight_boxes(const plan::Plan& plan, std::span<std::byte> sources) {
  std::vector<WeightBox> boxes;
  boxes.reserve(plan.sources.size());
  for (const plan::Source& source : plan.sources) {
    const std::uint64_t cols = source.spec.cols();
    boxes.push_back({.tensor = &source.spec,
                     .rows = source.spec.rows(),
                     .cols = cols,
                     .data = sources.subspan(source.offset, source.spec.bytes()).data(),
                     .pitch = cols * size_of(source.spec.dtype)});
  }
  return boxes;
}

std::uint64_t weight_key(std::uint64_t seed, const TensorSpec& tensor) {
  return mix64(seed * kGolden + digest_text(tensor.name));
}

std::uint64_t update_key(std::uint64_t seed, const TensorSpec& tensor, std::uint64_t step) {
  return mix64(weight_key(seed, tensor) + step);
}

void fill_weights(std::span<const WeightBox> boxes, std::uint64_t seed, ThreadPool& pool) {
  for_each_range(boxes, pool,
                 [&](const WeightBox& box, std::byte* at, std::uint64_t begin, std::uint64_t end) {
                   const std::uint64_t key = weight_key(seed, *box.tensor);
                   const std::size_t size = size_of(box.tensor->dtype);
                   switch (box.tensor->dtype) {
                     case DType::bf16:
                       return fill_bf16_range(at, key, box.tensor->cols(), begin, end);
                     case DType::f32:
                       return fill_f32_range(at, key, begin, end);
                     default:
                       return fill_other_range(at, key, begin * size, end * size);
                   }
                 });
}

void update_weights(std::span<const WeightBox> boxes, std::uint64_t seed, std::uint64_t step,
                    ThreadPool& pool) {
  for_each_range(boxes, pool,
                 [&](const WeightBox& box, std::byte* at, std::uint64_t begin, std::uint64_t end) {
                   const std::uint64_t key = update_key(seed, *box.tensor, step);
                   const std::size_t size = size_of(box.tensor->dtype);
                   switch (box.tensor->dtype) {
                     case DType::bf16:
                       return update_bf16_range(at, key, num_elements(box.tensor->shape), begin, end);
                     case DType::f32:
                       return update_f32_range(at, key, begin, end);
                     default:
                       return fill_other_range(at, key, begin * size, end * size);
                   }
                 });
}

}  // namespace refit::device
