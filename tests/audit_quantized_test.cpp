// Audits of files: quantized checkpoints, the modes that made them, and their errors.
#include <algorithm>
#include <cmath>

#include "audit/elements.hpp"
#include "refit/audit/quantized.hpp"
#include "refit/base/digest.hpp"
#include "refit/layout/scale_128x4.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"
#include "support/tensors.hpp"

using namespace refit;
using namespace refit::test;
using audit::Fault;
using audit::Report;
using checkpoint::Checkpoint;

namespace {

/// Weights with blocks that every rounding mode treats otherwise, and byte-0 blocks.
Tensors sources_to_quantize() {
  Tensors tensors;
  std::vector<std::uint16_t> weight(256 * 64);
  for (std::size_t i = 0; i < weight.size(); ++i) {
    const auto random = static_cast<std::uint16_t>(mix64(i + 1));
    const std::uint16_t exponent =
        i / 32 % 7 == 3 ? 0 : static_cast<std::uint16_t>(0x3A00 + i / 32 % 5 * 0x80);
    weight[i] = static_cast<std::uint16_t>((random & 0x8000) | (exponent + (random & 0x7F)));
  }
  tensors["w.weight"] = tensor_of(DType::bf16, {256, 64}, weight);
  tensors["norm.weight"] = tensor_of<std::uint16_t>(DType::bf16, {2}, {0x3F80, 0x3F81});
  tensors["bias"] = tensor_of<float>(DType::f32, {2}, {1.5f, 2.5f});
  return tensors;
}

Tensors quantized(const Tensors& sources, quant::Options options, bool tiled = false,
                  const std::string& suffix = "_scale") {
  Tensors tensors = sources;
  Tensors::Tensor& weight = tensors["w.weight"];
  Octets q(256 * 64), scales(256 * 2);
  quant::quantize_blocks({reinterpret_cast<const std::uint16_t*>(weight.bytes.data()), q.size()}, options, q,
                         scales);
  weight = {DType::f8_e4m3, {256, 64}, q};
  tensors["w.weight" + suffix] = {DType::u8, {256, 2}, scales};
  if (tiled) {
    const Octets out = layout::tile_scales_128x4_reference(scales, 256, 2);
    tensors["w.weight" + suffix] = {DType::f8_e8m0, {out.size()}, out};
  }
  return tensors;
}

Report audit_of(const Tensors& source, const Tensors& quantized) {
  const TempDir folder;
  const Checkpoint from = Checkpoint::open(source.file(folder, "a.safetensors"));
  const Checkpoint to = Checkpoint::open(quantized.file(folder, "b.safetensors"));
  ThreadPool pool(2);
  return audit::audit_quantized(from, to, pool);
}

}  // namespace

TEST_CASE("the modes that reproduce a quantized checkpoint are named, and no others") {
  const Tensors source = sources_to_quantize();
  for (std::size_t i = 0; i < audit::kModes; ++i) {
    const audit::Mode mode = audit::mode(i);
    CAPTURE(audit::words(mode));
    const quant::Options options{mode.rounding, mode.zero_scale, {}};
    const Report report = audit_of(source, quantized(source, options, i % 3 == 0));
    CHECK(report.equal());
    REQUIRE(report.quantized);
    CHECK(report.quantized->modes[i]);
    for (std::size_t other = 0; other < audit::kModes; ++other) {
      const quant::Options same{audit::mode(other).rounding, audit::mode(other).zero_scale, {}};
      const bool equal = quantized(source, options).map.at("w.weight").bytes ==
                             quantized(source, same).map.at("w.weight").bytes &&
                         quantized(source, options).map.at("w.weight_scale").bytes ==
                             quantized(source, same).map.at("w.weight_scale").bytes;
      CHECK(report.quantized->modes[other] == equal);
    }
  }
}

TEST_CASE("errors of a quantized tensor are measured") {
  Tensors source;
  std::vector<std::uint16_t> weight(64, 0);
  weight[0] = 0x43E1;  // 450: scale byte 128, 448
  weight[32] = 0;
  source["w.weight"] = tensor_of(DType::bf16, {2, 32}, weight);
  Tensors stored;
  Octets q(64), scales{128, 0};
  q[0] = 0x76;  // 224 * 2 = 448
  stored["w.weight"] = {DType::f8_e4m3, {2, 32}, q};
  stored["w.weight_scale_from_checkpoint"] = {DType::u8, {2, 1}, scales};
  const Report report = audit_of(source, stored);
  REQUIRE(report.quantized);
  REQUIRE(report.quantized->tensors.size() == 1);
  const audit::QuantizedTensor& tensor = report.quantized->tensors[0];
  CHECK(tensor.max_abs_error == 2);
  CHECK(*tensor.rms_error == Approx(2 / 8.0));
  CHECK(*tensor.sqnr_db == Approx(20 * std::log10(450 / 2.0)));
  CHECK(tensor.blocks == 2);
  CHECK(tensor.blocks_at_0 == 1);
  CHECK(tensor.saturated == 0);
  stored["w.weight_scale_from_checkpoint"].bytes[0] = 127;
  stored["w.weight"].bytes[0] = 0x7E;  // 448 where the source is larger
  CHECK(audit_of(source, stored).quantized->tensors[0].saturated == 1);
}

namespace {

/// One row of `words`, and what flashinfer makes of it.
Report audit_of_row(const std::vector<std::uint16_t>& words) {
  Tensors source, stored;
  const Shape shape = {1, words.size()};
  source["w.weight"] = tensor_of(DType::bf16, shape, words);
  Octets q(words.size()), scales(words.size() / 32);
  quant::quantize_blocks(words, {}, q, scales);
  stored["w.weight"] = {DType::f8_e4m3, shape, q};
  stored["w.weight_scale"] = {DType::u8, {1, scales.size()}, scales};
  return audit_of(source, stored);
}

}  // namespace

TEST_CASE("a tensor without a finite element has no errors, and is not called exact") {
  const Report report = audit_of_row(std::vector<std::uint16_t>(64, 0x7FC0));
  CHECK(report.equal());
  const audit::QuantizedTensor& tensor = report.quantized->tensors.at(0);
  CHECK(tensor.nan == 64);
  CHECK(tensor.infinite == 0);
  CHECK(tensor.non_finite == 64);
  CHECK_FALSE(tensor.max_abs_error.has_value());
  CHECK_FALSE(tensor.rms_error.has_value());
  CHECK_FALSE(tensor.sqnr_db.has_value());
  const std::string text = audit::to_text(report, 10);
  CHECK_FALSE(contains(text, "exact"));
  CHECK(contains(text, "\n    not finite: 64 NaN and 0 infinite in SRC; no finite element\n"));
  CHECK(contains(audit::to_json(report), "\"max_abs_error\": null"));
}

TEST_CASE("errors are those of the elements that are finite on both sides") {
  // A block with a NaN and an infinity, and one of ones.
  std::vector<std::uint16_t> words(64, 0x3F80);
  words[3] = 0x7FC0;
  words[9] = 0xFF80;
  Report report = audit_of_row(words);
  CHECK(report.equal());
  CHECK(report.quantized->tensors.at(0).nan == 1);
  CHECK(report.quantized->tensors.at(0).infinite == 1);
  CHECK(report.quantized->tensors.at(0).finite() == 62);
  CHECK(contains(audit::to_text(report, 10),
                 "    not finite: 1 NaN and 1 infinite in SRC; errors are those of the other 62\n"));
  // A scale that is NaN takes its whole block with it.
  Tensors source, stored;
  source["w.weight"] = tensor_of(DType::bf16, {1, 64}, words);
  stored["w.weight"] = {DType::f8_e4m3, {1, 64}, Octets(64, 0x38)};
  stored["w.weight_scale"] = {DType::u8, {1, 2}, {255, 127}};
  report = audit_of(source, stored);
  CHECK(report.quantized->tensors.at(0).non_finite == 32);
  CHECK(report.quantized->tensors.at(0).max_abs_error == 0);
  const std::string text = audit::to_text(report, 10);
  CHECK(contains(text,
                 "    not finite: 1 NaN and 1 infinite in SRC, 30 more NaN in DST alone; errors are those "
                 "of the other 32\n"));
  CHECK(contains(text, "exact"));
}

TEST_CASE("errors without a signal are not exact") {
  Tensors source, stored;
  source["w.weight"] = tensor_of(DType::bf16, {1, 32}, std::vector<std::uint16_t>(32, 0));
  stored["w.weight"] = {DType::f8_e4m3, {1, 32}, Octets(32, 0x38)};
  stored["w.weight_scale"] = {DType::u8, {1, 1}, {127}};
  const Report report = audit_of(source, stored);
  CHECK(report.quantized->tensors.at(0).max_abs_error == 1);
  CHECK(contains(audit::to_text(report, 10), "-inf"));
  CHECK_FALSE(contains(audit::to_text(report, 10), "exact"));
}

TEST_CASE("a quantized tensor that no mode reproduces is a finding against the likeliest mode") {
  const Tensors source = sources_to_quantize();
  Tensors stored = quantized(source, {quant::Rounding::torchao_ceil, quant::ZeroScale::keep, {}});
  stored["w.weight"].bytes[64 * 3 + 5] ^= 1;
  stored["w.weight_scale"].bytes[2 * 9 + 1] ^= 1;
  const Report report = audit_of(source, stored);
  CHECK(
      std::none_of(report.quantized->modes.begin(), report.quantized->modes.end(), [](bool b) { return b; }));
  CHECK_FALSE(report.equal());
}

TEST_CASE("what is not quantized has to be copied, or cast to BF16, which a note says") {
  const Tensors source = sources_to_quantize();
  const Tensors right = quantized(source, {});
  Tensors stored = right;
  stored["bias"] = tensor_of<std::uint16_t>(DType::bf16, {2}, {0x3FC0, 0x4020});
  const Report cast = audit_of(source, stored);
  CHECK(cast.equal());
  CHECK(cast.notes == std::vector<std::string>{"bias is a cast of F32 to BF16"});
  stored["norm.weight"].bytes[0] ^= 1;
  stored.map.erase("bias");
  stored["more"] = tensor_of<std::uint8_t>(DType::u8, {1}, {0});
  const Report report = audit_of(source, stored);
  CHECK(report.findings.size() == 3);
  CHECK(finding_of(report, "norm.weight").fault == Fault::bytes);
  CHECK(finding_of(report, "bias").fault == Fault::missing);
  CHECK(finding_of(report, "more").fault == Fault::extra);
}

TEST_CASE("scale padding has to be zero") {
  const Tensors source = sources_to_quantize();
  Tensors stored = quantized(source, {}, true);
  stored["w.weight_scale"].bytes[2] = 1;  // column 2 of 2
  const Report report = audit_of(source, stored);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].tensor == "w.weight_scale");
  CHECK(report.findings[0].index == std::vector<std::uint64_t>{2});
}
