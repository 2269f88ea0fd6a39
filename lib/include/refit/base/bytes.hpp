// Byte counts: parsing what people type, printing what people read, rounding to an alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace refit {

/// "64MiB", "1.5GiB", "4GB", "4G", "4096": K/M/G/T alone and KiB.. are powers of 1024, KB.. powers of 1000.
/// Throws Error(input) naming `what` and the text for anything empty, negative, zero, not finite, not a
/// number, or above 2^62.
[[nodiscard]] std::uint64_t parse_bytes(std::string_view text, std::string_view what);

/// "57.98 GB", "512 B": decimal units, as the published figures use them.
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);

/// The smallest multiple of `alignment` (a power of two) not below `value`.
[[nodiscard]] constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) noexcept {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace refit
