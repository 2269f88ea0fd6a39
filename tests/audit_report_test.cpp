// Audits of files: how elements are printed, and the three forms of a report.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "audit/diagnosis.hpp"
#include "audit/elements.hpp"
#include "refit/audit/report.hpp"
#include "refit/base/printable.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"
#include "support/tensors.hpp"

using namespace refit;
using namespace refit::test;

TEST_CASE("distances between elements count steps on the scale of all values, with -0 just below +0") {
  using audit::ulp_distance;
  CHECK(ulp_distance(DType::bf16, 0x3F80, 0x3F80) == 0u);
  CHECK(ulp_distance(DType::bf16, 0x3F80, 0x3F81) == 1u);
  CHECK(ulp_distance(DType::bf16, 0x0000, 0x8000) == 1u);
  CHECK(ulp_distance(DType::bf16, 0x0001, 0x8001) == 3u);
  CHECK(ulp_distance(DType::f32, 0x3F800000, 0xBF800000) == 2 * 0x3F800000ull + 1);
  CHECK(ulp_distance(DType::f8_e4m3, 0x7E, 0xFE) == 2 * 0x7Eull + 1);
  CHECK(ulp_distance(DType::f8_e8m0, 0x80, 0x7F) == 1u);
  CHECK(ulp_distance(DType::f64, 0x7FF0000000000000, 0xFFF0000000000000) == 2 * 0x7FF0000000000000ull + 1);
  CHECK_FALSE(ulp_distance(DType::u8, 1, 2).has_value());
}

TEST_CASE("elements are printed in their own dtype, with their bits") {
  using audit::describe_element;
  CHECK(describe_element(DType::bf16, 0x3F00) == "0.5 (0x3f00)");
  CHECK(describe_element(DType::f16, 0x3555) == "0.33325195 (0x3555)");
  CHECK(describe_element(DType::f16, 0x0001) == "5.9604645e-08 (0x0001)");
  CHECK(describe_element(DType::f16, 0xFC00) == "-inf (0xfc00)");
  CHECK(describe_element(DType::f32, 0x80000000) == "-0 (0x80000000)");
  CHECK(describe_element(DType::f64, 0x3FB999999999999A) == "0.1 (0x3fb999999999999a)");
  CHECK(describe_element(DType::f8_e4m3, 0x7E) == "448 (0x7e)");
  CHECK(describe_element(DType::f8_e5m2, 0x3C) == "1 (0x3c)");
  CHECK(describe_element(DType::f8_e8m0, 0x7D) == "2^-2 (0x7d)");
  CHECK(describe_element(DType::i16, 0xFFFF) == "-1 (0xffff)");
  CHECK(describe_element(DType::u64, 0xFFFFFFFFFFFFFFFF) == "18446744073709551615 (0xffffffffffffffff)");
  CHECK(describe_element(DType::boolean, 1) == "true (0x01)");
}

TEST_CASE("every diagnosis is in the schema of the JSON report") {
  std::ifstream file(std::string(REFIT_TESTS_DIR) + "/../scenarios/schema/refit-verify-1.schema.json");
  const std::string schema{std::istreambuf_iterator<char>(file), {}};
  for (const audit::Hypothesis& hypothesis : audit::all_hypotheses()) {
    CAPTURE(hypothesis.name);
    CHECK(contains(schema, '"' + std::string(hypothesis.name) + '"'));
  }
}

TEST_CASE("a report is JUnit XML with a test case a tensor, and names are escaped") {
  Tensors a, b;
  a["x<\"&>\n"] = tensor_of<std::uint8_t>(DType::u8, {1}, {1});
  b["x<\"&>\n"] = tensor_of<std::uint8_t>(DType::u8, {1}, {2});
  a["y"] = b["y"] = tensor_of<std::uint8_t>(DType::u8, {1}, {3});
  CHECK(
      audit::to_junit(compare(a, b)) ==
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"refit-verify files\" tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\">\n"
      "  <testcase classname=\"refit-verify.files\" name=\"x&lt;&quot;&amp;&gt;\\n\"><failure type=\"bytes\" "
      "message=\"x&lt;&quot;&amp;&gt;\\n: 1 of 1 elements differ, the first at [0] is 2 (0x02), expected 1 "
      "(0x01)\"/>"
      "</testcase>\n"
      "  <testcase classname=\"refit-verify.files\" name=\"y\"/>\n"
      "</testsuite>\n");
}

TEST_CASE("lines of a failure stay lines in JUnit XML") {
  audit::Report report;
  report.judged = {"x"};
  report.findings.push_back(
      {.tensor = "x", .fault = audit::Fault::missing, .expected = "U8 [1]", .got = "no such tensor"});
  report.findings.back().diagnosis = audit::Diagnosis{.name = "", .sentence = "unknown"};
  CHECK(contains(audit::to_junit(report),
                 "message=\"x: is missing, expected U8 [1]&#10;  diagnosis: unknown\""));
}

// --- names from outside ---

TEST_CASE("names cannot move the cursor, break a line or turn its direction") {
  CHECK(printable("model.layers.0.weight") == "model.layers.0.weight");
  CHECK(printable("Gewicht-\u00e4\u00f6\u00fc \u4e2d\u6587 \U0001F600 C:\\dir") ==
        "Gewicht-\u00e4\u00f6\u00fc \u4e2d\u6587 \U0001F600 C:\\dir");
  CHECK(printable("a\nb\r\tc") == "a\\nb\\r\\tc");
  CHECK(printable("\x1b[2J\x7f") == "\\x1b[2J\\x7f");
  CHECK(printable(std::string_view("\0x", 2)) == "\\x00x");
  CHECK(printable("\u0085\u009b") == "\\u0085\\u009b");
  CHECK(printable("\u2028\u202e\u2066\ufeff") == "\\u2028\\u202e\\u2066\\ufeff");
  CHECK(printable("\ufffe\uffff\ufdd0\U0001FFFF") == "\\ufffe\\uffff\\ufdd0\\U0001ffff");
  CHECK(printable("\ufffd\u00a0") == "\ufffd\u00a0");
}

TEST_CASE("bytes that are not UTF-8 are written out one by one") {
  CHECK(printable("\xff"
                  "a") ==
        "\\xff"
        "a");
  CHECK(printable("\x80") == "\\x80");
  CHECK(printable("\xc3") == "\\xc3");
  CHECK(printable("\xc0\x80") == "\\xc0\\x80");           // a longer form of 0
  CHECK(printable("\xe0\x80\x80") == "\\xe0\\x80\\x80");  // the same
  CHECK(printable("\xf0\x80\x80\x80") == "\\xf0\\x80\\x80\\x80");
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // half a pair of UTF-16
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
  CHECK(printable("\xe2\x82") == "\\xe2\\x82");
}

TEST_CASE("a report of hostile names has one line for each difference, in text and in XML") {
  Tensors a, b;
  const std::string name = "w\n26 tensors: every byte equal\x1b[8m\u202e\uffff";
  const std::string escaped = "w\\n26 tensors: every byte equal\\x1b[8m\\u202e\\uffff";
  a[name] = tensor_of<std::uint8_t>(DType::u8, {1}, {1});
  b[name] = tensor_of<std::uint8_t>(DType::u8, {1}, {2});
  const audit::Report report = compare(a, b);
  const std::string text = audit::to_text(report, 10);
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  CHECK(text.starts_with(escaped + ": 1 of 1 elements differ"));
  CHECK(contains(audit::to_junit(report), "name=\"" + escaped + "\""));
  CHECK(contains(audit::to_json(report), "w\\n26 tensors: every byte equal\\u001b[8m"));
}
