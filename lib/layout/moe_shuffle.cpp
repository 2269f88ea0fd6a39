// Row orders of the TRT-LLM MoE layout as closed index arithmetic, and the batched row gather.
#include "refit/layout/moe_shuffle.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "base/streamed_copy.hpp"
#include "layout/sizes.hpp"

namespace refit::layout {
namespace {

constexpr std::uint32_t shuffled(std::uint32_t n) noexcept {
  return n / 32 * 32 + n % 8 * 4 + n % 32 / 8;
}

/// {source_of(0), source_of(1), ... source_of(rows - 1)}.
template <class SourceOf>
SourceRows make_rows(std::uint32_t rows, SourceOf source_of) {
  SourceRows result(rows);
  for (std::uint32_t n = 0; n < rows; ++n) result[n] = source_of(n);
  return result;
}

bool overlap(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) noexcept {
  const std::less<const std::uint8_t*> before;  // a total order, also between unrelated buffers
  return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

void gather_expert_cached(const std::uint8_t* in, std::uint64_t row_bytes,
                          std::span<const std::uint32_t> source_rows, std::uint8_t* out) {
  for (std::size_t n = 0; n < source_rows.size(); ++n) {
    std::memcpy(out + n * row_bytes, in + source_rows[n] * row_bytes, row_bytes);
  }
}

void gather_expert_streaming(const std::uint8_t* in, std::uint64_t row_bytes,
                             std::span<const std::uint32_t> source_rows, std::uint8_t* out) {
  for (std::size_t n = 0; n < source_rows.size(); ++n) {
    const std::uint32_t next = source_rows[n + 1 < source_rows.size() ? n + 1 : n];
    stream_row(out + n * row_bytes, in + source_rows[n] * row_bytes, in + next * row_bytes, row_bytes);
  }
}

}  // namespace

SourceRows shuffle_rows(std::uint32_t rows) {
  if (rows % 32 != 0) {
    fail_input(
        fmt::format("The row shuffle works on blocks of 32 rows, and {} rows leave {}.", rows, rows % 32));
  }
  return make_rows(rows, shuffled);
}

SourceRows gated_interleave_rows(std::uint32_t rows) {
  if (rows % 2 != 0) {
    fail_input(fmt::format("Gate and up rows interleave in pairs, and {} rows is an odd number.", rows));
  }
  return make_rows(rows, [half = rows / 2](std::uint32_t o) { return o / 2 + o % 2 * half; });
}

SourceRows trtllm_w13_rows(std::uint32_t rows, bool gated) {
  require_tiled_rows(gated ? "gated w13" : "non-gated w13", rows);
  if (!gated) return make_rows(rows, shuffled);
  // Even places of the interleaved order are up rows, which the checkpoint has in its second half.
  return make_rows(rows, [half = rows / 2](std::uint32_t n) {
    const std::uint32_t interleaved = shuffled(n);
    return interleaved / 2 + (1 - interleaved % 2) * half;
  });
}

SourceRows trtllm_w2_rows(std::uint32_t rows) {
  require_tiled_rows("w2", rows);
  return make_rows(rows, shuffled);
}

std::vector<std::uint32_t> inverse(std::span<const std::uint32_t> source_rows) {
  constexpr auto unset = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> destination(source_rows.size(), unset);
  for (std::size_t n = 0; n < source_rows.size(); ++n) {
    const std::uint32_t source = source_rows[n];
    if (source >= source_rows.size()) {
      fail_input(
          fmt::format("Row map entry {} is {}, but there are {} rows.", n, source, source_rows.size()));
    }
    if (destination[source] != unset) {
      fail_input(fmt::format("Row map entries {} and {} are both {}, so the map is not a permutation.",
                             destination[source], n, source));
    }
    destination[source] = static_cast<std::uint32_t>(n);
  }
  return destination;
}

void gather_rows_batched(std::span<const std::uint8_t> in, const ExpertRows& what,
                         std::span<const std::uint32_t> source_rows, std::span<std::uint8_t> out) {
  require_bytes("The stack of experts to gather from", in.size(), {what.experts, what.rows, what.row_bytes});
  require_bytes("The stack of experts to gather into", out.size(), {what.experts, what.rows, what.row_bytes});
  if (source_rows.size() != what.rows) {
    fail_input(fmt::format("The row map has {} entries for {} rows.", source_rows.size(), what.rows));
  }
  const auto outside = std::find_if(source_rows.begin(), source_rows.end(),
                                    [&](std::uint32_t row) { return row >= what.rows; });
  if (outside != source_rows.end()) {
    fail_input(fmt::format("Row map entry {} is {}, but there are {} rows.", outside - source_rows.begin(),
                           *outside, what.rows));
  }
  if (in.empty()) return;
  if (overlap(in, out)) fail_input("Rows cannot be gathered in place: source and destination overlap.");

  const std::uint64_t expert_bytes = what.rows * what.row_bytes;
  const auto gather_expert =
      streams(out.data(), what.row_bytes, out.size()) ? gather_expert_streaming : gather_expert_cached;
  for (std::uint64_t expert = 0; expert < what.experts; ++expert) {
    const std::uint64_t offset = expert * expert_bytes;
    gather_expert(in.data() + offset, what.row_bytes, source_rows, out.data() + offset);
  }
  finish_streaming();
}

}  // namespace refit::layout
