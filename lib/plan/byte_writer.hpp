// Appends integers and texts to a byte string: little-endian, texts with their length before them.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace refit::plan {

static_assert(std::endian::native == std::endian::little, "bytes are copied as the machine has them");

class ByteWriter {
 public:
  explicit ByteWriter(std::size_t expected_bytes) { bytes_.reserve(expected_bytes); }

  template <class Integer>
  void put(Integer value) {
    static_assert(std::is_unsigned_v<Integer>);
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes_.append(raw, sizeof raw);
  }

  void put_text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text);
  }

  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::string take() noexcept { return std::move(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace refit::plan
