// Copies that write past the cache, for destinations far too large to stay in it.
//
// A plain store first fetches the line that it overwrites: three units of memory traffic where two are
// needed. memcpy of a whole array avoids that by itself; memcpy of one row is too short to do so.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace refit {

/// From here on nobody finds the first rows in the cache when the last ones have been written.
inline constexpr std::uint64_t streaming_threshold_bytes = std::uint64_t{32} << 20;

#if defined(__SSE2__)

/// Whether consecutive rows at `out` can be written with stream_row and gain by it.
inline bool streams(const std::uint8_t* out, std::uint64_t row_bytes, std::uint64_t total_bytes) noexcept {
  return total_bytes >= streaming_threshold_bytes && row_bytes % 16 == 0 &&
         reinterpret_cast<std::uintptr_t>(out) % 16 == 0;
}

/// Copies one row and prefetches the next, which is elsewhere, so that the hardware cannot guess it.
inline void stream_row(std::uint8_t* out, const std::uint8_t* in, const std::uint8_t* next_in,
                       std::uint64_t row_bytes) noexcept {
  const auto copy_16 = [&](std::uint64_t at) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + at),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + at)));
  };
  std::uint64_t at = 0;
  for (; at + 64 <= row_bytes; at += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(next_in + at), _MM_HINT_T0);
    copy_16(at);
    copy_16(at + 16);
    copy_16(at + 32);
    copy_16(at + 48);
  }
  for (; at < row_bytes; at += 16) copy_16(at);
}

/// Makes the streamed rows visible in order with later stores. Call it once after the last row.
inline void finish_streaming() noexcept {
  _mm_sfence();
}

#else

inline bool streams(const std::uint8_t*, std::uint64_t, std::uint64_t) noexcept {
  return false;
}
inline void stream_row(std::uint8_t* out, const std::uint8_t* in, const std::uint8_t*,
                       std::uint64_t row_bytes) noexcept {
  std::memcpy(out, in, row_bytes);
}
inline void finish_streaming() noexcept {}

#endif

/// memcpy of a piece of something large. Four places are read in turn, because one stream does not keep
/// enough lines under way.
inline void streamed_copy(std::byte* to, const std::byte* from, std::uint64_t bytes) noexcept {
#if defined(__SSE2__)
  constexpr std::uint64_t line = 64, stream_bytes = 4096, group = 4 * stream_bytes;
  const std::uint64_t head =
      std::min<std::uint64_t>(bytes, (line - reinterpret_cast<std::uintptr_t>(to) % line) % line);
  std::memcpy(to, from, head);
  std::uint64_t at = head;
  for (; at + group <= bytes; at += group) {
    for (std::uint64_t l = at; l < at + stream_bytes; l += line) {
      for (std::uint64_t s = l; s < l + group; s += stream_bytes) {
        _mm_prefetch(reinterpret_cast<const char*>(from + s + group), _MM_HINT_T0);
        for (std::uint64_t b = s; b < s + line; b += 16) {
          _mm_stream_si128(reinterpret_cast<__m128i*>(to + b),
                           _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + b)));
        }
      }
    }
  }
  std::memcpy(to + at, from + at, bytes - at);
  finish_streaming();
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace refit
