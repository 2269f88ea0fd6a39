// Element types and shape arithmetic.
#include <set>
#include <string>
#include <vector>

#include "refit/tensor/tensor.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"

using namespace refit;

TEST_CASE("every dtype has the size and the name that safetensors gives it") {
  struct Case {
    DType dtype;
    std::size_t size;
    std::string_view name;
  };
  const std::vector<Case> cases{
      {DType::f64, 8, "F64"},         {DType::f32, 4, "F32"},         {DType::f16, 2, "F16"},
      {DType::bf16, 2, "BF16"},       {DType::f8_e4m3, 1, "F8_E4M3"}, {DType::f8_e5m2, 1, "F8_E5M2"},
      {DType::f8_e8m0, 1, "F8_E8M0"}, {DType::i64, 8, "I64"},         {DType::i32, 4, "I32"},
      {DType::i16, 2, "I16"},         {DType::i8, 1, "I8"},           {DType::u64, 8, "U64"},
      {DType::u32, 4, "U32"},         {DType::u16, 2, "U16"},         {DType::u8, 1, "U8"},
      {DType::boolean, 1, "BOOL"},
  };
  std::set<DType> seen;
  for (const Case& c : cases) {
    CAPTURE(c.name);
    CHECK(seen.insert(c.dtype).second);
    CHECK(size_of(c.dtype) == c.size);
    CHECK(name_of(c.dtype) == c.name);
    CHECK(parse_dtype(c.name) == c.dtype);
  }
}

TEST_CASE("names that are no dtype give nothing") {
  for (const std::string_view name :
       {"", "bf16", "BF16 ", "BF", "BF160", "F8", "F4", "F6_E2M3", "F6_E3M2", "C64", "float32", "BOOLEAN"}) {
    CAPTURE(name);
    CHECK(!parse_dtype(name).has_value());
  }
}

TEST_CASE("the number of elements is the product of the dimensions") {
  CHECK(num_elements({}) == 1);
  CHECK(num_elements({0}) == 0);
  CHECK(num_elements({7}) == 7);
  CHECK(num_elements({129, 128, 3}) == 49536);
  CHECK(num_elements({0, 64}) == 0);
  CHECK(num_elements({3, 0}) == 0);
  CHECK(num_elements({1, 1, 1}) == 1);
}

TEST_CASE("a product that 63 bits of bytes cannot hold is refused with the shape") {
  constexpr std::uint64_t most = (1ull << 60) - 1;  // times 8 is below 2^63
  CHECK(num_elements({most}) == most);
  CHECK(num_elements({1ull << 30, (1ull << 30) - 1}) == (1ull << 60) - (1ull << 30));
  check_input_error([] { (void)num_elements({most + 1}); }, "[1152921504606846976]");
  check_input_error([] { (void)num_elements({1ull << 30, 1ull << 30}); }, "[1073741824, 1073741824]");
  check_input_error([] { (void)num_elements({~0ull}); }, "18446744073709551615");
  // 2^32 * 2^32 wraps to 0, and (2^32 + 1) * (2^32 - 1) to 2^64 - 1.
  check_input_error([] { (void)num_elements({1ull << 32, 1ull << 32}); }, "[4294967296, 4294967296]");
  check_input_error([] { (void)num_elements({(1ull << 32) + 1, (1ull << 32) - 1}); }, "4294967297");
  check_input_error([] { (void)num_elements({2, ~0ull, 2}); }, "elements");
}

TEST_CASE("a zero dimension makes any other dimensions harmless") {
  CHECK(num_elements({0, ~0ull, ~0ull}) == 0);
  CHECK(num_elements({~0ull, ~0ull, 0}) == 0);
}

TEST_CASE("shapes print as lists") {
  CHECK(to_string(Shape{}) == "[]");
  CHECK(to_string(Shape{0}) == "[0]");
  CHECK(to_string(Shape{4096, 2048}) == "[4096, 2048]");
}

TEST_CASE("a tensor seen as a matrix has its last dimension as columns, and a vector is a column") {
  const auto spec = [](Shape shape) { return TensorSpec{"t", std::move(shape), DType::bf16}; };
  CHECK(spec({}).rows() == 1);
  CHECK(spec({}).cols() == 1);
  CHECK(spec({5}).rows() == 5);
  CHECK(spec({5}).cols() == 1);
  CHECK(spec({128, 768, 2048}).rows() == 128 * 768);
  CHECK(spec({128, 768, 2048}).cols() == 2048);
  CHECK(spec({3, 0}).rows() == 3);
  CHECK(spec({3, 0}).cols() == 0);
  CHECK(spec({0, 64}).rows() == 0);
  CHECK(spec({0}).rows() == 0);
}

TEST_CASE("bytes count elements in their dtype") {
  CHECK(TensorSpec{"t", {4096, 2048}, DType::bf16}.bytes() == 16'777'216);
  CHECK(TensorSpec{"t", {3}, DType::f64}.bytes() == 24);
  CHECK(TensorSpec{"t", {}, DType::f32}.bytes() == 4);
  CHECK(TensorSpec{"t", {3, 0}, DType::f32}.bytes() == 0);
  CHECK(TensorSpec{"t", {5}, DType::f8_e8m0}.bytes() == 5);
}

TEST_CASE("specs are equal when name, shape and dtype are") {
  const TensorSpec spec{"a", {2, 3}, DType::bf16};
  CHECK(spec == TensorSpec{"a", {2, 3}, DType::bf16});
  CHECK(spec != TensorSpec{"b", {2, 3}, DType::bf16});
  CHECK(spec != TensorSpec{"a", {3, 2}, DType::bf16});
  CHECK(spec != TensorSpec{"a", {2, 3}, DType::f16});
}
