// Audits of dumps: every known fault, planted by other means than the renderer's, is named.
#include <algorithm>
#include <cstring>
#include <map>

#include "refit/base/digest.hpp"
#include "refit/layout/moe_shuffle.hpp"
#include "refit/layout/scale_128x4.hpp"
#include "support/catch.hpp"
#include "support/dumped.hpp"
#include "support/error_of.hpp"

using namespace refit;
using namespace refit::test;
using audit::Fault;
using audit::Finding;
using audit::Report;

TEST_CASE("diagnosis: w1 and w3 exchanged") {
  Dumped dumped = tiny();
  Refit wrong(test::kTinyConfig);
  Tensors sources = wrong.sources();
  for (std::uint64_t e = 0; e < kExperts; ++e) {
    const std::string prefix = "model.layers.1.mlp.experts." + std::to_string(e);
    std::swap(sources[prefix + ".gate_proj.weight"], sources[prefix + ".up_proj.weight"]);
  }
  std::swap(sources["model.layers.0.mlp.gate_proj.weight"], sources["model.layers.0.mlp.up_proj.weight"]);
  wrong.set_sources(sources);
  dumped.dump = wrong.parameters();
  check_diagnoses(dumped.audit(), {{kW13, "w1 and w3 exchanged"},
                                   {kW13 + "_scale", "w1 and w3 exchanged"},
                                   {"model.layers.0.mlp.gate_up_proj.weight", "gate and up exchanged"}});
}

TEST_CASE("diagnosis: rows not shuffled, scales not permuted, scales in row-major order") {
  Dumped dumped = tiny();
  const Tensors canonical =
      Refit(test::kTinyConfig, {{}, quant::ZeroScale::one, {}}, plan::MoeLayout::checkpoint).parameters();
  const Octets& scales = canonical.at(kW13 + "_scale").bytes;
  SECTION("values") {
    dumped.dump[kW13] = canonical.at(kW13);
    dumped.dump[kW2] = canonical.at(kW2);
    check_diagnoses(dumped.audit(), {{kW13, "rows not shuffled"}, {kW2, "rows not shuffled"}});
  }
  SECTION("scales of canonical rows") {
    Octets tiled;
    for (std::uint64_t e = 0; e < kExperts; ++e) {
      const std::uint64_t size = kW13Rows * kHidden / 32;
      const Octets one =
          layout::tile_scales_128x4_reference({scales.data() + e * size, size}, kW13Rows, kHidden / 32);
      tiled.insert(tiled.end(), one.begin(), one.end());
    }
    dumped.dump[kW13 + "_scale"].bytes = tiled;
    check_diagnoses(dumped.audit(), {{kW13 + "_scale", "scales not permuted with the rows"}});
  }
  SECTION("scales as in the checkpoint") {
    dumped.dump[kW13 + "_scale"] = canonical.at(kW13 + "_scale");
    check_diagnoses(
        dumped.audit(),
        {{kW13 + "_scale", "scale rows in row-major order, not 128x4, and not permuted with the rows"}});
  }
  SECTION("scales of shuffled rows") {
    Tensors::Tensor& tensor = dumped.dump[kW2 + "_scale"];
    const std::uint64_t columns = kWidth / 32;
    Octets plain(kExperts * kW2Rows * columns);
    const std::uint64_t tiled = tensor.bytes.size() / kExperts;
    for (std::uint64_t e = 0; e < kExperts; ++e) {
      layout::untile_scales_128x4({tensor.bytes.data() + e * tiled, tiled}, kW2Rows, columns,
                                  {plain.data() + e * kW2Rows * columns, kW2Rows * columns});
    }
    tensor = {DType::u8, {kExperts, kW2Rows, columns}, plain};
    check_diagnoses(dumped.audit(), {{kW2 + "_scale", "scale rows in row-major order, not 128x4"}});
  }
}

namespace {

/// The kernels' order of rows of every expert, applied to bytes that already have some order.
void shuffle_again(Octets& bytes, std::uint64_t rows, bool gated) {
  const auto map = layout::trtllm_w13_rows(static_cast<std::uint32_t>(rows), gated);
  const Octets before = bytes;
  layout::gather_rows_batched(before, {kExperts, rows, bytes.size() / kExperts / rows}, map, bytes);
}

}  // namespace

TEST_CASE("diagnosis: shuffled twice, with the weights of this step or of the one before") {
  Dumped dumped = tiny();
  SECTION("this step") {
    shuffle_again(dumped.dump[kW13].bytes, kW13Rows, true);
    shuffle_again(dumped.dump[kW2].bytes, kW2Rows, false);
    const std::string twice = "shuffled twice (stale layout from the previous refit)";
    check_diagnoses(dumped.audit(), {{kW13, twice}, {kW2, twice}});
  }
  SECTION("the step before") {
    Refit refit(test::kTinyConfig);
    const Tensors before = refit.parameters();
    dumped.previous = refit.sources();
    refit.step(1);
    dumped.sources = refit.sources();
    dumped.dump = refit.parameters();
    dumped.dump[kW13] = before.at(kW13);
    shuffle_again(dumped.dump[kW13].bytes, kW13Rows, true);
    check_diagnoses(
        dumped.audit(),
        {{kW13, "shuffled twice, and from the previous step (not rewritten before the shuffle)"}});
  }
}

TEST_CASE("diagnosis: half of the row order alone") {
  Dumped dumped = tiny();
  const Tensors canonical =
      Refit(test::kTinyConfig, {{}, quant::ZeroScale::one, {}}, plan::MoeLayout::checkpoint).parameters();
  dumped.dump[kW13] = canonical.at(kW13);
  Octets& bytes = dumped.dump[kW13].bytes;
  const Octets before = bytes;
  SECTION("the shuffle") {
    layout::gather_rows_batched(before, {kExperts, kW13Rows, kHidden}, layout::shuffle_rows(kW13Rows), bytes);
    check_diagnoses(dumped.audit(), {{kW13, "rows shuffled, but w1 and w3 not interleaved"}});
  }
  SECTION("the interleave") {
    for (std::uint64_t e = 0; e < kExperts; ++e) {
      for (std::uint64_t row = 0; row < kW13Rows; ++row) {
        const std::uint64_t from = row / 2 + (row % 2 == 0 ? kWidth : 0);
        std::copy_n(before.begin() + static_cast<std::ptrdiff_t>((e * kW13Rows + from) * kHidden), kHidden,
                    bytes.begin() + static_cast<std::ptrdiff_t>((e * kW13Rows + row) * kHidden));
      }
    }
    check_diagnoses(dumped.audit(), {{kW13, "w1 and w3 interleaved, but rows not shuffled"}});
  }
}

TEST_CASE("diagnosis: shuffled and tiled where the layout is the checkpoint's") {
  Dumped dumped = tiny();
  dumped.request.layout = audit::Layout::checkpoint;
  const std::string values = "rows shuffled for the TRT-LLM kernels, expected in the order of the checkpoint";
  const std::string scales =
      "scale rows in 128x4 and permuted for the TRT-LLM kernels, not as in the checkpoint";
  std::map<std::string, std::string> expected;
  for (const char* const layer : {"1", "2"}) {
    for (const char* const matrix : {"w13", "w2"}) {
      const std::string name = std::string("model.layers.") + layer + ".mlp.experts." + matrix + "_weight";
      expected[name] = values;
      expected[name + "_scale"] = scales;
    }
  }
  check_diagnoses(dumped.audit(), expected);
}

TEST_CASE("diagnosis: a linear layer's scales in tiles where rows were expected, and the other way round") {
  const Refit refit(test::kTinyConfig, {{}, quant::ZeroScale::keep, {}}, plan::MoeLayout::checkpoint,
                    model::RecipeKind::mlp);
  Dumped dumped;
  dumped.request.recipe.kind = model::RecipeKind::mlp;
  dumped.request.quant.zero_scale = quant::ZeroScale::keep;
  dumped.request.layout = audit::Layout::checkpoint;
  dumped.sources = refit.sources();
  dumped.dump = refit.parameters();
  const std::string name = "model.layers.0.mlp.gate_up_proj.weight_scale";
  CHECK(diagnosis_of(dumped.audit(), name) == "scale rows in 128x4, not row-major order");
  dumped.request.layout = audit::Layout::linear_128x4;
  CHECK(dumped.audit().equal());
  Tensors::Tensor& tensor = dumped.dump[name];
  Octets plain(1024 * kHidden / 32);
  layout::untile_scales_128x4(tensor.bytes, 1024, kHidden / 32, plain);
  tensor = {DType::u8, {1024, kHidden / 32}, plain};
  check_diagnoses(dumped.audit(), {{name, "scale rows in row-major order, not 128x4"}});
}

TEST_CASE("diagnosis: experts exchanged, by values, by scales, and among more than two") {
  Dumped dumped = tiny();
  exchange(dumped.dump[kW13].bytes, kExperts, 6, 7);
  exchange(dumped.dump[kW2 + "_scale"].bytes, kExperts, 2, 5);
  exchange(dumped.dump[kW2].bytes, kExperts, 0, 1);
  exchange(dumped.dump[kW2].bytes, kExperts, 1, 2);
  check_diagnoses(dumped.audit(), {{kW13, "values of experts 6 and 7 exchanged"},
                                   {kW2 + "_scale", "scales of experts 2 and 5 exchanged"},
                                   {kW2,
                                    "values of other experts: expert 0 has those of 1, expert 1 has those of "
                                    "2, expert 2 has those of 0"}});
}

TEST_CASE("diagnosis: the previous step, of a whole tensor and of single experts") {
  Refit refit(test::kTinyConfig);
  Dumped dumped;
  const Tensors before = refit.parameters();
  dumped.previous = refit.sources();
  refit.step(1);
  dumped.sources = refit.sources();
  dumped.dump = refit.parameters();
  const std::string qkv = "model.layers.2.self_attn.qkv_proj.weight";
  dumped.dump[qkv] = before.at(qkv);
  Octets& w13 = dumped.dump[kW13].bytes;
  const std::uint64_t size = w13.size() / kExperts;
  for (const std::uint64_t e : {3, 5}) {
    std::memcpy(w13.data() + e * size, before.at(kW13).bytes.data() + e * size, size);
  }
  check_diagnoses(dumped.audit(), {{qkv, "tensor is from the previous step"},
                                   {kW13, "values of experts 3, 5 are from the previous step"}});
  dumped.previous.reset();
  check_diagnoses(dumped.audit(), {{qkv, "unknown"}, {kW13, "unknown"}});
}

TEST_CASE("diagnosis: another rounding mode, and byte 0 kept") {
  Dumped dumped = tiny();
  SECTION("rounding") {
    dumped.dump =
        Refit(test::kTinyConfig, {quant::Rounding::torchao_floor, quant::ZeroScale::one, {}}).parameters();
    const Report report = dumped.audit();
    CHECK(report.findings.size() == 8);
    for (const Finding& finding : report.findings) {
      CHECK(finding.diagnosis->sentence == "rounded torchao-floor, expected flashinfer");
      CHECK(finding.diagnosis->name == "rounding");
    }
  }
  SECTION("zero scale") {
    dumped.dump = Refit(test::kTinyConfig, {{}, quant::ZeroScale::keep, {}}).parameters();
    const Report report = dumped.audit();
    CHECK(report.findings.size() == 4);
    for (const Finding& finding : report.findings) {
      CHECK(finding.diagnosis->sentence == "byte 0 not replaced");
    }
  }
  SECTION("both") {
    dumped.dump =
        Refit(test::kTinyConfig, {quant::Rounding::torchao_ceil, quant::ZeroScale::keep, {}}).parameters();
    CHECK(diagnosis_of(dumped.audit(), kW13) == "rounded torchao-ceil, expected flashinfer");
    CHECK(diagnosis_of(dumped.audit(), kW13 + "_scale") ==
          "rounded torchao-ceil, expected flashinfer, and byte 0 not replaced");
  }
  SECTION("zero scale that was to be kept") {
    dumped.request.quant.zero_scale = quant::ZeroScale::keep;
    CHECK(diagnosis_of(dumped.audit(), kW13 + "_scale") == "byte 0 replaced by 1, expected kept");
  }
}

TEST_CASE("diagnosis: the router bias went through BF16, and stays FP32 or not") {
  Dumped dumped = tiny();
  const std::string bias = "model.layers.1.mlp.gate.e_score_correction_bias";
  Tensors::Tensor& tensor = dumped.dump[bias];
  Octets stored;
  for (std::size_t i = 0; i < tensor.bytes.size(); i += 4) {
    float value;
    std::memcpy(&value, tensor.bytes.data() + i, 4);
    const std::uint16_t bits = quant::bf16_from_float(value);
    stored.push_back(static_cast<std::uint8_t>(bits));
    stored.push_back(static_cast<std::uint8_t>(bits >> 8));
    const float rounded = quant::bf16_value(bits);
    std::memcpy(tensor.bytes.data() + i, &rounded, 4);
  }
  // All of these biases are 3.0 in BF16, whose bytes are equal: that explains more than memory never written.
  check_diagnoses(dumped.audit(), {{bias, "router bias went through BF16"}});
  tensor = {DType::bf16, tensor.shape, stored};
  const Report report = dumped.audit();
  CHECK(finding_of(report, bias).fault == Fault::dtype);
  CHECK(diagnosis_of(report, bias) == "router bias went through BF16, and is stored as BF16");
}

TEST_CASE("diagnosis: q, k and v in another order, and in Megatron's") {
  Dumped dumped = tiny();
  const std::string qkv = "model.layers.2.self_attn.qkv_proj.";
  const auto part = [&](const char* which, const char* kind) {
    return dumped.sources.at(std::string("model.layers.2.self_attn.") + which + "_proj." + kind).bytes;
  };
  const auto joined = [](std::vector<Octets> parts) {
    Octets out;
    for (const Octets& one : parts) out.insert(out.end(), one.begin(), one.end());
    return out;
  };
  SECTION("k first") {
    for (const char* kind : {"weight", "bias"}) {
      dumped.dump[qkv + kind].bytes = joined({part("k", kind), part("q", kind), part("v", kind)});
    }
    const std::string sentence = "q, k and v in the order k, q, v";
    check_diagnoses(dumped.audit(), {{qkv + "weight", sentence}, {qkv + "bias", sentence}});
  }
  SECTION("by group") {
    const auto half = [&](const char* which, bool second) {
      const Octets all = part(which, "weight");
      const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
      return second ? Octets(middle, all.end()) : Octets(all.begin(), middle);
    };
    dumped.dump[qkv + "weight"].bytes = joined({half("q", false), half("k", false), half("v", false),
                                                half("q", true), half("k", true), half("v", true)});
    check_diagnoses(dumped.audit(),
                    {{qkv + "weight", "q, k and v rows alternate by KV head group (Megatron's order)"}});
  }
}

TEST_CASE("diagnosis: transposed") {
  Dumped dumped = tiny();
  const std::string name = "model.layers.0.self_attn.qkv_proj.weight";
  Tensors::Tensor& tensor = dumped.dump[name];
  const std::uint64_t rows = tensor.shape[0], cols = tensor.shape[1];
  const Octets before = tensor.bytes;
  for (std::uint64_t r = 0; r < rows; ++r) {
    for (std::uint64_t c = 0; c < cols; ++c) {
      std::memcpy(&tensor.bytes[(c * rows + r) * 2], &before[(r * cols + c) * 2], 2);
    }
  }
  std::swap(tensor.shape[0], tensor.shape[1]);
  check_diagnoses(dumped.audit(), {{name, "transposed"}});
}

TEST_CASE("diagnosis: never written") {
  Dumped dumped = tiny();
  std::ranges::fill(dumped.dump["model.norm.weight"].bytes, std::uint8_t{0});
  std::ranges::fill(dumped.dump[kW2].bytes, std::uint8_t{0xA5});
  check_diagnoses(dumped.audit(), {{"model.norm.weight", "never written: every byte is 0x00"},
                                   {kW2, "never written: every byte is 0xa5"}});
}

TEST_CASE("diagnosis: vocabulary padding, and a head that is the embedding") {
  // 1000 rows: engines pad to 1024.
  std::string config = test::kTinyConfig;
  config.replace(config.find("1024"), 4, "1000");
  const Refit refit(config);
  Dumped dumped(config);
  dumped.sources = refit.sources();
  dumped.dump = refit.parameters();
  CHECK(dumped.audit().equal());
  Tensors::Tensor& head = dumped.dump["lm_head.weight"];
  constexpr std::uint64_t row_bytes = kHidden * 2;
  const auto padded_to = [](Tensors::Tensor& tensor, std::uint64_t rows) {
    tensor.shape[0] = rows;
    tensor.bytes.resize(rows * row_bytes);
  };
  const std::string not_trimmed = "vocabulary padding not trimmed: 1152 rows, the vocabulary has 1000";
  SECTION("an engine's own padding is right, and has to be zero") {
    padded_to(head, 1024);
    CHECK(dumped.audit().equal());
    head.bytes[1010 * row_bytes] = 1;
    check_diagnoses(dumped.audit(), {{"lm_head.weight",
                                      "vocabulary padding not zero: rows 1000 to 1023 are beyond the "
                                      "vocabulary, and 1 of them is not zero, row 1010"}});
    head.bytes[1023 * row_bytes] = 1;
    check_diagnoses(dumped.audit(), {{"lm_head.weight",
                                      "vocabulary padding not zero: rows 1000 to 1023 are beyond the "
                                      "vocabulary, and 2 of them are not zero, the first is row 1010"}});
    // A wrong row of the vocabulary has nothing to do with the padding.
    head.bytes[999 * row_bytes] ^= 1;
    check_diagnoses(dumped.audit(), {{"lm_head.weight", "unknown"}});
    head.bytes[1010 * row_bytes] = head.bytes[1023 * row_bytes] = 0;
    check_diagnoses(dumped.audit(), {{"lm_head.weight", "unknown"}});
  }
  SECTION("another number of rows is not right") {
    padded_to(head, 1010);
    check_diagnoses(dumped.audit(),
                    {{"lm_head.weight", "vocabulary of 1000 rows padded to 1010, expected 1024"}});
    head.bytes.back() = 1;
    check_diagnoses(dumped.audit(),
                    {{"lm_head.weight",
                      "vocabulary of 1000 rows padded to 1010, expected 1024; rows 1000 to "
                      "1009 are beyond the vocabulary, and 1 of them is not zero, row 1009"}});
    padded_to(head, 1001);
    check_diagnoses(dumped.audit(),
                    {{"lm_head.weight", "vocabulary of 1000 rows padded to 1001, expected 1024"}});
  }
  SECTION("a trainer's padding is not") {
    padded_to(head, 1152);
    check_diagnoses(dumped.audit(), {{"lm_head.weight", not_trimmed}});
    head.bytes.back() = 0x3F;
    check_diagnoses(
        dumped.audit(),
        {{"lm_head.weight", not_trimmed + "; rows 1000 to 1151 are beyond the vocabulary, and 1 of them is "
                                          "not zero, row 1151"}});
    // The same rows of a source that was saved with them.
    dumped.sources["lm_head.weight"] = head;
    check_diagnoses(dumped.audit(), {{"lm_head.weight", not_trimmed}});
    head.bytes.back() = 0;
    check_diagnoses(
        dumped.audit(),
        {{"lm_head.weight", not_trimmed + "; rows 1000 to 1151 are beyond the vocabulary, and all of them "
                                          "are zero"}});
  }
  SECTION("the embedding") {
    head = dumped.dump["model.embed_tokens.weight"];
    check_diagnoses(dumped.audit(),
                    {{"lm_head.weight", "holds the token embedding, which is another tensor in this model"}});
  }
}

TEST_CASE("diagnosis: experts that are alike hide no exchange, and make none up") {
  Refit refit(test::kTinyConfig);
  Tensors sources = refit.sources();
  // Experts 1, 3 and 6 of layer 1 are one, and so are 0 and 4.
  for (const auto& [copy, of] : {std::pair{"3", "1"}, {"6", "1"}, {"4", "0"}}) {
    for (const char* const part : {".gate_proj.weight", ".up_proj.weight", ".down_proj.weight"}) {
      const std::string prefix = "model.layers.1.mlp.experts.";
      sources[prefix + copy + part] = sources[prefix + of + part];
    }
  }
  refit.set_sources(sources);
  Dumped dumped;
  dumped.sources = sources;
  dumped.dump = refit.parameters();
  Octets& w13 = dumped.dump[kW13].bytes;
  const Octets right = w13;
  const auto one = [&](std::uint64_t a, std::uint64_t b) {
    w13 = right;
    exchange(w13, kExperts, a, b);
    const Report report = dumped.audit();
    return report.equal() ? std::string("equal") : diagnosis_of(report, kW13);
  };
  CHECK(one(1, 3) == "equal");
  CHECK(one(0, 4) == "equal");
  CHECK(one(2, 3) == "values of experts 2 and 3 exchanged");
  CHECK(one(4, 6) == "values of experts 4 and 6 exchanged");
  CHECK(one(1, 7) == "values of experts 1 and 7 exchanged");
  exchange(w13, kExperts, 7, 2);
  CHECK(diagnosis_of(dumped.audit(), kW13) ==
        "values of other experts: expert 1 has those of 7, expert 2 has those of 1, expert 7 has those of 2");
}

TEST_CASE("diagnosis: stale experts that were alike are the previous step's own") {
  Refit refit(test::kTinyConfig);
  Tensors before = refit.sources();
  for (const char* const part : {".gate_proj.weight", ".up_proj.weight", ".down_proj.weight"}) {
    const std::string prefix = "model.layers.1.mlp.experts.";
    before[prefix + "5" + part] = before[prefix + "2" + part];
  }
  refit.set_sources(before);
  const Tensors stale = refit.parameters();
  refit.step(1);
  Dumped dumped;
  dumped.previous = before;
  dumped.sources = refit.sources();
  dumped.dump = refit.parameters();
  Octets& w13 = dumped.dump[kW13].bytes;
  const Octets& from = stale.at(kW13).bytes;
  const std::size_t size = w13.size() / kExperts;
  std::memcpy(w13.data() + 5 * size, from.data() + 5 * size, size);
  check_diagnoses(dumped.audit(), {{kW13, "values of expert 5 are from the previous step"}});
  std::memcpy(w13.data() + 4 * size, from.data() + 6 * size, size);
  check_diagnoses(dumped.audit(),
                  {{kW13,
                    "values of other experts: expert 4 has those of 6 from the previous step; 5 "
                    "from the previous step"}});
}

TEST_CASE("random damage is unknown") {
  for (const char* const suffix : {"", "_scale"}) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      Dumped dumped = tiny();
      Octets& bytes = dumped.dump[kW13 + suffix].bytes;
      const std::uint64_t at = mix64(seed) % bytes.size();
      bytes[at] ^= static_cast<std::uint8_t>(1 + mix64(seed + 100) % 255);
      CAPTURE(seed, at);
      check_diagnoses(dumped.audit(1), {{kW13 + suffix, "unknown"}});
    }
  }
  // A fault with one byte more wrong is not that fault.
  Dumped dumped = tiny();
  exchange(dumped.dump[kW13].bytes, kExperts, 6, 7);
  dumped.dump[kW13].bytes.back() ^= 1;
  check_diagnoses(dumped.audit(), {{kW13, "unknown"}});
}
