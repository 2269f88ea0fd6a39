// Names and sizes of the element types.
#include "refit/tensor/dtype.hpp"

#include <array>

namespace refit {
namespace {

struct Row {
  DType dtype;
  std::size_t size;
  std::string_view name;
};

/// One row a dtype, in the order of the enumeration.
constexpr std::array rows{
    Row{DType::f64, 8, "F64"},         Row{DType::f32, 4, "F32"},         Row{DType::f16, 2, "F16"},
    Row{DType::bf16, 2, "BF16"},       Row{DType::f8_e4m3, 1, "F8_E4M3"}, Row{DType::f8_e5m2, 1, "F8_E5M2"},
    Row{DType::f8_e8m0, 1, "F8_E8M0"}, Row{DType::i64, 8, "I64"},         Row{DType::i32, 4, "I32"},
    Row{DType::i16, 2, "I16"},         Row{DType::i8, 1, "I8"},           Row{DType::u64, 8, "U64"},
    Row{DType::u32, 4, "U32"},         Row{DType::u16, 2, "U16"},         Row{DType::u8, 1, "U8"},
    Row{DType::boolean, 1, "BOOL"},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (static_cast<std::size_t>(rows[i].dtype) != i) return false;
  }
  return rows.size() == static_cast<std::size_t>(DType::boolean) + 1;
}
static_assert(in_order());

}  // namespace

std::size_t size_of(DType dtype) noexcept {
  return rows[static_cast<std::size_t>(dtype)].size;
}

std::string_view name_of(DType dtype) noexcept {
  return rows[static_cast<std::size_t>(dtype)].name;
}

std::optional<DType> parse_dtype(std::string_view name) noexcept {
  for (const Row& row : rows) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace refit
