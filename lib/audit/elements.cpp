// Single elements: reading, printing, and comparing many of them.
#include "audit/elements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "quant/casts.hpp"
#include "refit/quant/mxfp8.hpp"

namespace refit::audit {
namespace {

std::int64_t signed_value(std::uint64_t bits, std::size_t bytes) {
  const unsigned unused = static_cast<unsigned>(64 - 8 * bytes);
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

std::string value_text(DType dtype, std::uint64_t bits) {
  switch (dtype) {
    case DType::f64:
      return fmt::format("{}", std::bit_cast<double>(bits));
    case DType::f32:
      return fmt::format("{}", std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case DType::f16:
      return fmt::format("{}", quant::f16_value(static_cast<std::uint16_t>(bits)));
    case DType::bf16:
      return fmt::format("{}", quant::bf16_value(static_cast<std::uint16_t>(bits)));
    case DType::f8_e4m3:
      return fmt::format("{}", quant::e4m3_value(static_cast<std::uint8_t>(bits)));
    case DType::f8_e5m2:  // the upper byte of an FP16
      return fmt::format("{}", quant::f16_value(static_cast<std::uint16_t>(bits << 8)));
    case DType::f8_e8m0:
      return bits == 0xFF ? "nan" : fmt::format("2^{}", static_cast<int>(bits) - 127);
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
      return fmt::format("{}", signed_value(bits, size_of(dtype)));
    case DType::boolean:
      return bits == 0 ? "false" : "true";
    case DType::u64:
    case DType::u32:
    case DType::u16:
    case DType::u8:
      break;
  }
  return fmt::format("{}", bits);
}

bool is_floating(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::f8_e8m0:
      return true;
    default:
      return false;
  }
}

/// Sign and magnitude to an unsigned number that grows with the value.
std::uint64_t ordered(DType dtype, std::uint64_t bits) {
  if (dtype == DType::f8_e8m0) return bits;
  const std::uint64_t sign = std::uint64_t{1} << (8 * size_of(dtype) - 1);
  return (bits & sign) != 0 ? (sign - 1) - (bits & (sign - 1)) : sign + bits;
}

}  // namespace

std::string describe_element(DType dtype, std::uint64_t bits) {
  return fmt::format("{} (0x{:0{}x})", value_text(dtype, bits), bits, 2 * size_of(dtype));
}

std::optional<std::uint64_t> ulp_distance(DType dtype, std::uint64_t a, std::uint64_t b) {
  if (!is_floating(dtype)) return std::nullopt;
  const std::uint64_t x = ordered(dtype, a), y = ordered(dtype, b);
  return x > y ? x - y : y - x;
}

template <typename Bits>
ElementTally::Differences ElementTally::look(Bytes expected, Bytes got, std::uint64_t first) const {
  Differences found;
  for (std::size_t i = 0; i < expected.size() / sizeof(Bits); ++i) {
    Bits a, b;
    std::memcpy(&a, expected.data() + i * sizeof(Bits), sizeof(Bits));
    std::memcpy(&b, got.data() + i * sizeof(Bits), sizeof(Bits));
    if (a == b) continue;
    if (found.count++ == 0) {
      found.first = first + i;
      found.expected = a;
      found.got = b;
    }
    const auto ulp = ulp_distance(dtype_, a, b);
    if (ulp) found.max_ulp = std::max(found.max_ulp.value_or(0), *ulp);
  }
  return found;
}

void ElementTally::compare(Bytes expected, Bytes got, std::uint64_t first) {
  if (expected.empty() || std::memcmp(expected.data(), got.data(), expected.size()) == 0) return;
  Differences found;
  switch (size_of(dtype_)) {
    case 8:
      found = look<std::uint64_t>(expected, got, first);
      break;
    case 4:
      found = look<std::uint32_t>(expected, got, first);
      break;
    case 2:
      found = look<std::uint16_t>(expected, got, first);
      break;
    default:
      found = look<std::uint8_t>(expected, got, first);
      break;
  }
  const std::lock_guard lock(mutex_);
  if (found_.count == 0 || found.first < found_.first) {
    found_.first = found.first;
    found_.expected = found.expected;
    found_.got = found.got;
  }
  found_.count += found.count;
  if (found.max_ulp) found_.max_ulp = std::max(found_.max_ulp.value_or(0), *found.max_ulp);
}

std::optional<Finding> ElementTally::finding(const TensorSpec& spec) const {
  if (found_.count == 0) return std::nullopt;
  return Finding{.tensor = spec.name,
                 .fault = Fault::bytes,
                 .expected = describe_element(dtype_, found_.expected),
                 .got = describe_element(dtype_, found_.got),
                 .index = index_of(spec.shape, found_.first),
                 .count = found_.count,
                 .of = num_elements(spec.shape),
                 .max_ulp = found_.max_ulp};
}

std::vector<std::uint64_t> index_of(const Shape& shape, std::uint64_t flat) {
  std::vector<std::uint64_t> index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return index;
}

std::string index_text(const std::vector<std::uint64_t>& index) {
  return fmt::format("[{}]", fmt::join(index, ", "));
}

}  // namespace refit::audit
