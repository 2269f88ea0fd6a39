// Audits of files: two checkpoints, byte for byte.
#include <numeric>

#include "refit/audit/files.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"
#include "support/tensors.hpp"

using namespace refit;
using namespace refit::test;
using audit::Fault;
using audit::Finding;
using audit::Report;

namespace {

Tensors some_tensors() {
  Tensors tensors;
  std::vector<std::uint16_t> matrix(3 * 5);
  std::iota(matrix.begin(), matrix.end(), std::uint16_t{0x3F00});
  tensors["matrix"] = tensor_of(DType::bf16, {3, 5}, matrix);
  tensors["scalar"] = tensor_of<float>(DType::f32, {}, {0.0f});
  tensors["none"] = tensor_of<float>(DType::f32, {0, 4}, {});
  tensors["bytes"] = tensor_of<std::uint8_t>(DType::u8, {3}, {1, 2, 3});
  return tensors;
}

}  // namespace

TEST_CASE("a checkpoint is equal to itself") {
  const Report report = compare(some_tensors(), some_tensors());
  CHECK(report.equal());
  CHECK(report.judged.size() == 4);
  CHECK(report.bytes == 30 + 4 + 3);
}

TEST_CASE("the first difference has an index, both values, a count and the largest distance") {
  const Tensors a = some_tensors();
  Tensors b = a;
  b["matrix"].bytes[(1 * 5 + 2) * 2] ^= 1;      // one step
  b["matrix"].bytes[(2 * 5 + 4) * 2 + 1] ^= 1;  // 256 steps
  const Report report = compare(a, b);
  REQUIRE(report.findings.size() == 1);
  const Finding& finding = report.findings[0];
  CHECK(finding.tensor == "matrix");
  CHECK(finding.fault == Fault::bytes);
  CHECK(finding.index == std::vector<std::uint64_t>{1, 2});
  CHECK(finding.expected == "0.52734375 (0x3f07)");
  CHECK(finding.got == "0.5234375 (0x3f06)");
  CHECK(finding.count == 2);
  CHECK(finding.of == 15);
  CHECK(finding.max_ulp == 256u);
  CHECK(audit::to_text(report, 10)
            .starts_with("matrix: 2 of 15 elements differ, the first at [1, 2] is 0.5234375 (0x3f06), "
                         "expected 0.52734375 (0x3f07); "
                         "largest distance 256 ULP\n"));
}

TEST_CASE("-0 is not +0, and NaN payloads count") {
  const Tensors a = some_tensors();
  Tensors b = a;
  b["scalar"].bytes[3] = 0x80;
  CHECK(compare(a, b).findings.at(0).max_ulp == 1u);
  Tensors nan = a, other_nan = a;
  nan["scalar"] = tensor_of<std::uint32_t>(DType::f32, {}, {0x7FC00000});
  other_nan["scalar"] = tensor_of<std::uint32_t>(DType::f32, {}, {0x7FC00001});
  CHECK(compare(nan, nan).equal());
  CHECK(compare(nan, other_nan).findings.at(0).count == 1);
}

TEST_CASE("a difference of dtype or shape, a missing and an extra tensor are named with both sides") {
  const Tensors a = some_tensors();
  Tensors b = a;
  b["matrix"].dtype = DType::f16;
  b["bytes"].shape = {1, 3};
  b.map.erase("scalar");
  b["more"] = tensor_of<std::uint8_t>(DType::boolean, {1}, {1});
  const Report report = compare(a, b);
  CHECK(report.findings.size() == 4);
  CHECK(finding_of(report, "matrix").fault == Fault::dtype);
  CHECK(finding_of(report, "matrix").expected == "BF16");
  CHECK(finding_of(report, "matrix").got == "F16");
  CHECK(finding_of(report, "bytes").fault == Fault::shape);
  CHECK(finding_of(report, "bytes").got == "[1, 3]");
  CHECK(finding_of(report, "scalar").fault == Fault::missing);
  CHECK(finding_of(report, "more").fault == Fault::extra);
}

TEST_CASE("single tensors are compared alone, and a name that nobody has is refused") {
  const Tensors a = some_tensors();
  Tensors b = a;
  b["bytes"].bytes[0] = 9;
  CHECK(compare(a, b, {"matrix"}).equal());
  CHECK_FALSE(compare(a, b, {"bytes"}).equal());
  check_input_error([&] { (void)compare(a, b, {"nothing"}); }, "nothing");
}
