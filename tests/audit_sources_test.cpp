// Audits of dumps whose source is F32, F16 or MXFP8 already.
#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "refit/base/digest.hpp"
#include "refit/layout/scale_128x4.hpp"
#include "support/catch.hpp"
#include "support/dumped.hpp"
#include "support/error_of.hpp"

using namespace refit;
using namespace refit::test;
using audit::Fault;
using audit::Finding;
using audit::Report;

namespace {

const std::string kNorm = "model.norm.weight";
const std::string kBias = "model.layers.1.mlp.gate.e_score_correction_bias";

/// F32 values that round to these BF16 patterns: some below, some above, some exactly.
Tensors::Tensor as_f32(const Tensors::Tensor& bf16) {
  std::vector<std::uint32_t> wide;
  for (const std::uint16_t word : words_of(bf16)) {
    const std::uint32_t exact = std::uint32_t{word} << 16;
    const std::uint32_t step = wide.size() % 3 == 0 ? 0 : wide.size() % 3 == 1 ? 0x7FFF : 0xFFFF'8001;
    // Below 0 there is no smaller magnitude.
    wide.push_back((word & 0x7FFF) == 0 ? exact : exact + step);
  }
  return tensor_of(DType::f32, bf16.shape, wide);
}

/// FP16 with random exponents, and what BF16 makes of it. FP16 has three fraction bits more than BF16.
struct Half {
  Tensors::Tensor f16, bf16;
};
Half half(const Shape& shape, std::uint64_t seed) {
  std::vector<std::uint16_t> halves, words;
  for (std::uint64_t i = 0; i < num_elements(shape); ++i) {
    const std::uint64_t random = mix64(seed + i);
    const auto exponent = static_cast<std::uint32_t>(5 + random % 20);
    const auto fraction = static_cast<std::uint32_t>(random >> 16 & 0x3FF);
    const auto sign = static_cast<std::uint32_t>(random >> 40 & 1);
    halves.push_back(static_cast<std::uint16_t>(sign << 15 | exponent << 10 | fraction));
    const std::uint32_t f32 = sign << 31 | (exponent + 112) << 23 | fraction << 13;
    words.push_back(quant::bf16_from_float(std::bit_cast<float>(f32)));
  }
  return {tensor_of(DType::f16, shape, halves), tensor_of(DType::bf16, shape, words)};
}

bool is_expert(const std::string& name) {
  return contains(name, ".experts.");
}

Tensors quantized_experts(const Tensors& sources, const quant::Options& options, const std::string& suffix,
                          DType scale_dtype = DType::u8) {
  return quantized(sources, is_expert, options, suffix, scale_dtype);
}

}  // namespace

TEST_CASE(
    "an F32 source is rounded to BF16 before it is quantized, and so are copies that a dump has as BF16") {
  Dumped dumped = tiny();
  for (auto& [name, tensor] : dumped.sources.map) {
    if (tensor.dtype == DType::bf16) tensor = as_f32(tensor);
  }
  const Report report = dumped.audit();
  CAPTURE(audit::to_text(report, 20));
  CHECK(report.equal());
  CHECK(report.judged.size() == dumped.dump.map.size());
  REQUIRE(report.notes.size() == 2);
  CHECK(contains(report.notes[0], "48 tensors of F32 or F16 rounded to BF16"));
  CHECK(contains(report.notes[1], "of the dump cast from F32 or F16 to BF16"));
  SECTION("a copy in F32 is right too") {
    dumped.dump[kNorm] = dumped.sources[kNorm];
    CHECK(dumped.audit().equal());
    dumped.dump[kNorm].bytes[4] ^= 1;
    CHECK(finding_of(dumped.audit(), kNorm).fault == Fault::bytes);
  }
  SECTION("another rounding of a copy is not") {
    Octets& bytes = dumped.dump[kNorm].bytes;
    for (std::size_t i = 0; i < bytes.size() / 2; ++i) {  // upper halves: towards zero
      std::memcpy(bytes.data() + 2 * i, dumped.sources[kNorm].bytes.data() + 4 * i + 2, 2);
    }
    check_diagnoses(dumped.audit(), {{kNorm, "unknown"}});
  }
  SECTION("what a router adds to its scores stays F32") {
    dumped.dump[kBias] = {DType::bf16, {kExperts}, Octets(2 * kExperts)};
    CHECK(finding_of(dumped.audit(), kBias).fault == Fault::dtype);
  }
  SECTION("diagnoses are found as for BF16") {
    exchange(dumped.dump[kW13].bytes, kExperts, 2, 5);
    dumped.dump["lm_head.weight"] = dumped.dump["model.embed_tokens.weight"];
    check_diagnoses(dumped.audit(),
                    {{kW13, "values of experts 2 and 5 exchanged"},
                     {"lm_head.weight", "holds the token embedding, which is another tensor in this model"}});
  }
  SECTION("other rounding modes too") {
    dumped.dump =
        Refit(kTinyConfig, {quant::Rounding::torchao_floor, quant::ZeroScale::one, {}}).parameters();
    CHECK(diagnosis_of(dumped.audit(), kW13) == "rounded torchao-floor, expected flashinfer");
  }
}

TEST_CASE("an F16 source is rounded to BF16 likewise, under TP too") {
  Refit refit(kTinyConfig);
  Dumped dumped;
  dumped.sources = refit.sources();
  Tensors bf16 = dumped.sources;
  std::uint64_t seed = 0;
  for (auto& [name, tensor] : dumped.sources.map) {
    if (tensor.dtype != DType::bf16) continue;
    const Half both = half(tensor.shape, ++seed << 32);
    tensor = both.f16;
    bf16[name] = both.bf16;
  }
  refit.set_sources(bf16);
  dumped.dump = refit.parameters();
  const Report report = dumped.audit();
  CAPTURE(audit::to_text(report, 20));
  CHECK(report.equal());
  dumped.dump[kNorm] = dumped.sources[kNorm];
  CHECK(dumped.audit().equal());
  dumped.dump[kNorm].dtype = DType::bf16;
  CHECK(finding_of(dumped.audit(), kNorm).fault == Fault::bytes);
}

TEST_CASE("a router bias that the source has in BF16 or F16 may be F32 in the engine, exactly") {
  const Half both = half({kExperts}, 5);
  for (const auto& narrow : {both.f16, both.bf16}) {
    Dumped dumped = tiny();
    dumped.sources[kBias] = narrow;
    dumped.dump[kBias] = narrow;
    CHECK(dumped.audit().equal());
    std::vector<float> wide;
    for (const std::uint16_t word : words_of(narrow)) {
      const std::uint32_t sign = word >> 15, exponent = word >> 10 & 0x1F, fraction = word & 0x3FF;
      wide.push_back(narrow.dtype == DType::bf16
                         ? quant::bf16_value(word)
                         : std::bit_cast<float>(sign << 31 | (exponent + 112) << 23 | fraction << 13));
    }
    dumped.dump[kBias] = tensor_of(DType::f32, {kExperts}, wide);
    const Report report = dumped.audit();
    CAPTURE(audit::to_text(report, 5));
    CHECK(report.equal());
    CHECK(contains(report.notes.at(0), "1 tensor of the dump in F32"));
    dumped.dump[kBias].bytes[0] ^= 1;
    check_diagnoses(dumped.audit(), {{kBias, "unknown"}});
    dumped.dump[kNorm] = tensor_of(DType::f32, {kHidden}, std::vector<float>(kHidden));
    CHECK(finding_of(dumped.audit(), kNorm).fault == Fault::dtype);
  }
}

TEST_CASE("an MXFP8 source is laid out byte for byte, whatever --rounding says") {
  // Nobody's rounding: bytes that no quantizer would make stay as they are.
  const quant::Options odd{quant::Rounding::torchao_ceil, quant::ZeroScale::keep, {}};
  Refit refit(kTinyConfig, odd);
  Dumped dumped;
  dumped.sources = refit.sources();
  dumped.dump = refit.parameters();
  for (const std::string suffix : {"_scale", "_scale_from_checkpoint"}) {
    Dumped mx = dumped;
    mx.sources =
        quantized_experts(dumped.sources, odd, suffix, suffix == "_scale" ? DType::u8 : DType::f8_e8m0);
    Report report = mx.audit();
    CAPTURE(audit::to_text(report, 20));
    CHECK(report.equal());
    REQUIRE(report.notes.size() == 1);
    CHECK(contains(report.notes[0], "48 tensors of the source already MXFP8"));

    exchange(mx.dump[kW13].bytes, kExperts, 6, 7);
    exchange(mx.dump[kW2 + "_scale"].bytes, kExperts, 2, 5);
    check_diagnoses(mx.audit(), {{kW13, "values of experts 6 and 7 exchanged"},
                                 {kW2 + "_scale", "scales of experts 2 and 5 exchanged"}});
    // NeMo-RL's replacement of byte 0 in what it is sent.
    mx.dump = dumped.dump;
    for (std::uint8_t& scale : mx.sources["model.layers.1.mlp.experts.3.up_proj.weight" + suffix].bytes) {
      scale = 0;
    }
    const Report zeros = mx.audit();
    CHECK(zeros.findings.size() == 1);
    CHECK(finding_of(zeros, kW13 + "_scale").fault == Fault::bytes);
  }
}

TEST_CASE("diagnosis: byte 0 of an MXFP8 source was replaced") {
  const quant::Options keep{quant::Rounding::flashinfer, quant::ZeroScale::keep, {}};
  Dumped dumped;
  const Refit refit(kTinyConfig, keep);
  dumped.sources = quantized_experts(refit.sources(), keep, "_scale");
  dumped.dump = refit.parameters();
  CHECK(dumped.audit().equal());
  const std::string scales = kW2 + "_scale";
  Octets& bytes = dumped.dump[scales].bytes;
  CHECK(std::count(bytes.begin(), bytes.end(), 0) > 0);
  // Padding of 128x4 stays 0: 6 columns of scales.
  const std::uint64_t columns = kWidth / quant::kBlock, tiled = bytes.size() / kExperts;
  for (std::uint64_t e = 0; e < kExperts; ++e) {
    Octets rows(kW2Rows * columns);
    const std::span one(bytes.data() + e * tiled, tiled);
    layout::untile_scales_128x4(one, kW2Rows, columns, rows);
    std::replace(rows.begin(), rows.end(), std::uint8_t{0}, std::uint8_t{1});
    layout::tile_scales_128x4(rows, kW2Rows, columns, one);
  }
  check_diagnoses(dumped.audit(), {{scales, "byte 0 replaced by 1, expected kept"}});
}

TEST_CASE("scales of an MXFP8 source that nobody could lay out are refused by name") {
  const quant::Options options;
  Dumped dumped = tiny();
  dumped.sources = quantized_experts(dumped.sources, options, "_scale");
  const std::string name = "model.layers.1.mlp.experts.3.up_proj.weight";
  const auto refused = [&](auto... words) { check_input_error([&] { (void)dumped.audit(); }, words...); };
  SECTION("under two names") {
    dumped.sources[name + "_scale_from_checkpoint"] = dumped.sources[name + "_scale"];
    refused(name, "two names");
  }
  SECTION("of another shape") {
    dumped.sources[name + "_scale"].shape = {kHidden / 32, kWidth};
    refused(name + "_scale", "[8, 192]", "[192, 8]");
  }
  SECTION("missing") {
    dumped.sources.map.erase(name + "_scale");
    refused(name, "F8_E4M3");
  }
  SECTION("of a tensor that the recipe leaves out") {
    dumped.request.recipe.kind = model::RecipeKind::none;
    refused("MXFP8", "recipe none", "--recipe");
  }
  SECTION("of a previous step that is not MXFP8") {
    dumped.previous = tiny().sources;
    refused("BF16", "F8_E4M3");
  }
}
