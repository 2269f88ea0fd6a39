// Audits of files: two checkpoints, a quantized one, and dumps of engines with every known fault planted.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>

#include "audit/diagnosis.hpp"
#include "audit/elements.hpp"
#include "refit/audit/engine.hpp"
#include "refit/audit/files.hpp"
#include "refit/audit/quantized.hpp"
#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "refit/device/backend.hpp"
#include "refit/device/weights.hpp"
#include "refit/layout/moe_shuffle.hpp"
#include "refit/layout/scale_128x4.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_model.hpp"

using namespace refit;
using audit::Fault;
using audit::Finding;
using audit::Report;
using checkpoint::Checkpoint;

namespace {

using Octets = std::vector<std::uint8_t>;

/// Tensors by name, and the file of them.
struct Tensors {
  struct Tensor {
    DType dtype{};
    Shape shape;
    Octets bytes;
  };
  std::map<std::string, Tensor> map;

  Tensor& operator[](const std::string& name) { return map[name]; }
  [[nodiscard]] const Tensor& at(const std::string& name) const { return map.at(name); }

  [[nodiscard]] std::string file(const TempDir& folder, const std::string& name) const {
    std::vector<TensorSpec> specs;
    std::string data;
    for (const auto& [tensor, value] : map) {
      specs.push_back({tensor, value.shape, value.dtype});
      data.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
    }
    return folder.write(name, checkpoint::make_header(specs, {}) + data);
  }
};

template <typename Element>
Tensors::Tensor tensor_of(DType dtype, Shape shape, const std::vector<Element>& elements) {
  Tensors::Tensor tensor{dtype, std::move(shape), Octets(elements.size() * sizeof(Element))};
  if (!elements.empty()) std::memcpy(tensor.bytes.data(), elements.data(), tensor.bytes.size());
  return tensor;
}

/// A model with weights, and what the host's refit makes of them.
class Refit {
 public:
  explicit Refit(const std::string& config,
                 quant::Options quant = {quant::Rounding::flashinfer, quant::ZeroScale::one, {}},
                 plan::MoeLayout layout = plan::MoeLayout::flashinfer_trtllm,
                 std::optional<model::RecipeKind> recipe = {}) {
    plan::Request request;
    request.model = model::parse_inventory(config, "test config");
    request.recipe.kind = recipe.value_or(model::default_recipe(request.model));
    request.moe_layout = layout;
    request.quant = quant;
    plan_ = plan::build(request);
    weights_.resize(plan_.source_arena_bytes);
    ThreadPool pool(1);
    device::fill_weights(plan_, weights_, 1, pool);
  }

  void step(std::uint64_t number) {
    ThreadPool pool(1);
    device::update_weights(plan_, weights_, 1, number, pool);
  }

  [[nodiscard]] Tensors sources() const {
    Tensors tensors;
    for (const plan::Source& source : plan_.sources) {
      tensors[source.spec.name] = read(source.spec, weights_, source.offset);
    }
    return tensors;
  }
  /// Takes the weights that have a name here.
  void set_sources(const Tensors& tensors) {
    for (const plan::Source& source : plan_.sources) {
      const auto found = tensors.map.find(source.spec.name);
      if (found == tensors.map.end()) continue;
      REQUIRE(found->second.bytes.size() == source.spec.bytes());
      std::memcpy(weights_.data() + source.offset, found->second.bytes.data(), found->second.bytes.size());
    }
  }
  [[nodiscard]] Tensors parameters() const {
    std::vector<std::byte> arena(plan_.destination_arena_bytes);
    const auto backend = device::make_host_backend(1);
    backend->run(test::all_tasks(plan_, weights_.data(), arena.data()));
    Tensors tensors;
    for (const plan::Destination& parameter : plan_.destinations) {
      tensors[parameter.spec.name] = read(parameter.spec, arena, parameter.offset);
    }
    return tensors;
  }

 private:
  static Tensors::Tensor read(const TensorSpec& spec, const std::vector<std::byte>& arena,
                              std::uint64_t offset) {
    Tensors::Tensor tensor{spec.dtype, spec.shape, Octets(spec.bytes())};
    if (!tensor.bytes.empty()) std::memcpy(tensor.bytes.data(), arena.data() + offset, tensor.bytes.size());
    return tensor;
  }

  plan::Plan plan_;
  std::vector<std::byte> weights_;
};

/// An audit of a dump against sources.
struct Dumped {
  Tensors sources, dump;
  std::optional<Tensors> previous;
  audit::EngineRequest request;

  explicit Dumped(const std::string& config = test::kTinyConfig) {
    request.model = model::parse_inventory(config, "test config");
    request.recipe.kind = model::default_recipe(request.model);
    request.layout = audit::Layout::flashinfer_trtllm;
    request.quant.zero_scale = quant::ZeroScale::one;
  }
  [[nodiscard]] Report audit(unsigned threads = 2) const {
    const TempDir folder;
    const Checkpoint source = Checkpoint::open(sources.file(folder, "src.safetensors"));
    const Checkpoint file = Checkpoint::open(dump.file(folder, "dump.safetensors"));
    std::optional<Checkpoint> before;
    if (previous) before = Checkpoint::open(previous->file(folder, "previous.safetensors"));
    ThreadPool pool(threads);
    return audit::audit_engine(request, source, file, before ? &*before : nullptr, pool);
  }
};

/// The tiny model, refitted right.
Dumped tiny() {
  Dumped dumped;
  const Refit refit(test::kTinyConfig);
  dumped.sources = refit.sources();
  dumped.dump = refit.parameters();
  return dumped;
}

const std::string kW13 = "model.layers.1.mlp.experts.w13_weight";
const std::string kW2 = "model.layers.2.mlp.experts.w2_weight";
constexpr std::uint64_t kExperts = 8, kW13Rows = 384, kHidden = 256, kW2Rows = 256, kWidth = 192;

const Finding& finding_of(const Report& report, const std::string& tensor) {
  const auto found = std::find_if(report.findings.begin(), report.findings.end(),
                                  [&](const Finding& finding) { return finding.tensor == tensor; });
  if (found == report.findings.end()) FAIL("no finding for " + tensor);
  return *found;
}
std::string diagnosis_of(const Report& report, const std::string& tensor) {
  const Finding& finding = finding_of(report, tensor);
  REQUIRE(finding.diagnosis.has_value());
  return finding.diagnosis->sentence;
}
/// The audit finds these tensors alone, and says this of each.
void check_diagnoses(const Report& report, const std::map<std::string, std::string>& expected) {
  CAPTURE(audit::to_text(report, 20));
  std::map<std::string, std::string> got;
  for (const Finding& finding : report.findings) {
    got[finding.tensor] = finding.diagnosis ? finding.diagnosis->sentence : "none";
  }
  CHECK(got == expected);
}

/// Exchanges two equally large pieces of a tensor.
void exchange(Octets& bytes, std::uint64_t pieces, std::uint64_t a, std::uint64_t b) {
  const auto size = static_cast<std::ptrdiff_t>(bytes.size() / pieces);
  const auto at = [&](std::uint64_t piece) {
    return bytes.begin() + static_cast<std::ptrdiff_t>(piece) * size;
  };
  std::swap_ranges(at(a), at(a + 1), at(b));
}

}  // namespace

// --- elements ---

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

// --- files ---

namespace {

Report compare(const Tensors& a, const Tensors& b, const std::vector<std::string>& names = {}) {
  const TempDir folder;
  const Checkpoint left = Checkpoint::open(a.file(folder, "a.safetensors"));
  const Checkpoint right = Checkpoint::open(b.file(folder, "b.safetensors"));
  ThreadPool pool(2);
  return audit::compare_files(left, right, names, pool);
}

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

// --- quantized ---

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
  CHECK(tensor.rms_error == Approx(2 / 8.0));
  CHECK(*tensor.sqnr_db == Approx(20 * std::log10(450 / 2.0)));
  CHECK(tensor.blocks == 2);
  CHECK(tensor.blocks_at_0 == 1);
  CHECK(tensor.saturated == 0);
  stored["w.weight_scale_from_checkpoint"].bytes[0] = 127;
  stored["w.weight"].bytes[0] = 0x7E;  // 448 where the source is larger
  CHECK(audit_of(source, stored).quantized->tensors[0].saturated == 1);
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

// --- engines ---

TEST_CASE("what a refit makes is what an engine has to hold, in every layout, recipe and mode") {
  for (const auto layout : {plan::MoeLayout::flashinfer_trtllm, plan::MoeLayout::checkpoint}) {
    for (const auto recipe : {model::RecipeKind::routed_experts, model::RecipeKind::all_linear}) {
      for (const auto rounding : {quant::Rounding::flashinfer, quant::Rounding::torchao_floor}) {
        const Refit refit(test::kTinyConfig, {rounding, quant::ZeroScale::keep, {}}, layout, recipe);
        Dumped dumped;
        dumped.request.recipe.kind = recipe;
        dumped.request.quant = {rounding, quant::ZeroScale::keep, {}};
        dumped.request.layout = layout == plan::MoeLayout::checkpoint ? audit::Layout::linear_128x4
                                                                      : audit::Layout::flashinfer_trtllm;
        dumped.sources = refit.sources();
        dumped.dump = refit.parameters();
        const Report report = dumped.audit();
        CAPTURE(audit::to_text(report, 10));
        CHECK(report.equal());
        CHECK(report.not_judged.empty());
        CHECK(report.judged.size() == dumped.dump.map.size());
      }
    }
  }
}

TEST_CASE("tensors that nothing is expected of are listed, and missing ones are differences") {
  Dumped dumped = tiny();
  dumped.dump["model.layers.0.self_attn.attn.k_scale"] = tensor_of<float>(DType::f32, {}, {1.0f});
  dumped.dump.map.erase(kW2 + "_scale");
  const Report report = dumped.audit();
  CHECK(report.not_judged == std::vector<std::string>{"model.layers.0.self_attn.attn.k_scale"});
  CHECK(report.findings.size() == 1);
  CHECK(finding_of(report, kW2 + "_scale").fault == Fault::missing);
}

TEST_CASE("experts nested one module deeper, canonical scales beside and SGLang's names are found") {
  Dumped dumped = tiny();
  const Tensors canonical =
      Refit(test::kTinyConfig, {{}, quant::ZeroScale::one, {}}, plan::MoeLayout::checkpoint).parameters();
  Tensors nested, sglang;
  for (const auto& [name, tensor] : dumped.dump.map) {
    std::string deep = name, scale = name;
    if (const auto at = name.find(".experts.w"); at != name.npos) deep.insert(at + 9, "routed_experts.");
    nested[deep] = tensor;
    if (name.ends_with("_scale")) scale += "_inv";
    sglang[scale] = tensor;
  }
  nested["model.layers.1.mlp.experts.routed_experts.w13_weight_scale_from_checkpoint"] =
      canonical.at(kW13 + "_scale");
  dumped.dump = nested;
  CHECK(dumped.audit().equal());
  CHECK(dumped.audit().not_judged.empty());
  dumped.request.engine = audit::Engine::sglang;
  dumped.dump = sglang;
  CHECK(dumped.audit().equal());
}

TEST_CASE("sources that the model does not have that way are refused by name") {
  Dumped dumped = tiny();
  dumped.sources.map.erase("model.norm.weight");
  check_input_error([&] { (void)dumped.audit(); }, "model.norm.weight");
  dumped = tiny();
  dumped.sources["model.norm.weight"].shape = {128};
  dumped.sources["model.norm.weight"].bytes.resize(256);
  check_input_error([&] { (void)dumped.audit(); }, "model.norm.weight", "[128]", "[256]");
}

// --- diagnoses, each planted by other means than the renderer's ---

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
  SECTION("an engine's own padding is right") {
    head.shape[0] = 1024;
    head.bytes.resize(1024 * kHidden * 2);
    CHECK(dumped.audit().equal());
    head.bytes[1010 * kHidden * 2] = 1;
    check_diagnoses(dumped.audit(),
                    {{"lm_head.weight",
                      "vocabulary padding not trimmed: rows 1000 to 1023 are beyond the vocabulary "
                      "and not zero"}});
  }
  SECTION("a trainer's padding is not") {
    head.shape[0] = 1152;
    head.bytes.resize(1152 * kHidden * 2);
    check_diagnoses(dumped.audit(), {{"lm_head.weight",
                                      "vocabulary padding not trimmed: 1152 rows, the vocabulary has 1000"}});
    head.bytes.back() = 0x3F;
    // The same rows of a source that was saved with them.
    dumped.sources["lm_head.weight"] = head;
    check_diagnoses(dumped.audit(), {{"lm_head.weight",
                                      "vocabulary padding not trimmed: 1152 rows, the vocabulary has 1000"}});
  }
  SECTION("the embedding") {
    head = dumped.dump["model.embed_tokens.weight"];
    check_diagnoses(dumped.audit(),
                    {{"lm_head.weight", "holds the token embedding, which is another tensor in this model"}});
  }
}

// --- ranks: a rank's refit is that of a smaller model with the rank's weights, cut here by hand ---

namespace {

/// `heads`, `kv`, widths and experts as one rank has them; 1024 rows of vocabulary on all ranks together.
std::string config_of(unsigned heads, unsigned kv, unsigned width, unsigned expert_width, unsigned vocab) {
  return R"({"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 256,
    "num_hidden_layers": 2, "head_dim": 64, "num_experts": 4, "num_experts_per_tok": 2, "mlp_only_layers": [0],
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "attention_bias": true, "num_attention_heads": )" +
         std::to_string(heads) + R"(, "num_key_value_heads": )" + std::to_string(kv) +
         R"(, "intermediate_size": )" + std::to_string(width) + R"(, "moe_intermediate_size": )" +
         std::to_string(expert_width) + R"(, "vocab_size": )" + std::to_string(vocab) + "}";
}

Octets rows_of(const Tensors::Tensor& tensor, std::uint64_t begin, std::uint64_t count) {
  const std::uint64_t row = tensor.bytes.size() / tensor.shape[0];
  const auto from = tensor.bytes.begin() + static_cast<std::ptrdiff_t>(begin * row);
  return {from, from + static_cast<std::ptrdiff_t>(count * row)};
}

/// The columns of BF16 [rows, cols].
Octets cols_of(const Tensors::Tensor& tensor, std::uint64_t begin, std::uint64_t count) {
  Octets out;
  const std::uint64_t row = tensor.bytes.size() / tensor.shape[0];
  for (std::uint64_t r = 0; r < tensor.shape[0]; ++r) {
    const auto from = tensor.bytes.begin() + static_cast<std::ptrdiff_t>(r * row + begin * 2);
    out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(count * 2));
  }
  return out;
}

bool has(const std::string& name, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return name.find(word) != name.npos; });
}

/// Rank `rank` of `ranks` has these parts of the whole model's sources; KV heads are shared beyond `kv`.
Tensors cut(const Tensors& whole, unsigned ranks, unsigned rank, unsigned kv) {
  Tensors mine;
  for (const auto& [name, tensor] : whole.map) {
    Tensors::Tensor part = tensor;
    const std::uint64_t rows = tensor.shape[0];
    if (has(name, {"k_proj", "v_proj"})) {
      const unsigned cuts = std::min(kv, ranks);
      part.bytes = rows_of(tensor, rank * cuts / ranks * (rows / cuts), rows / cuts);
    } else if (has(name, {"q_proj", "gate_proj", "up_proj", "embed_tokens", "lm_head"})) {
      part.bytes = rows_of(tensor, rank * (rows / ranks), rows / ranks);
    } else if (has(name, {"o_proj.weight", "down_proj"})) {
      const std::uint64_t cols = tensor.shape[1] / ranks;
      part.bytes = cols_of(tensor, rank * cols, cols);
    }
    mine[name] = part;
  }
  return mine;
}

constexpr unsigned kTpHeads = 8, kTpKv = 2, kTpWidth = 512, kTpExpertWidth = 256;

Dumped tp_rank(unsigned ranks, unsigned rank, unsigned weights_of) {
  const std::string config = config_of(kTpHeads, kTpKv, kTpWidth, kTpExpertWidth, 1024);
  const quant::Options quant{quant::Rounding::flashinfer, quant::ZeroScale::one, {}};
  const Refit whole(config, quant, {}, model::RecipeKind::mlp);
  Refit part(config_of(kTpHeads / ranks, std::max(1u, kTpKv / ranks), kTpWidth / ranks,
                       kTpExpertWidth / ranks, 1024 / ranks),
             quant, {}, model::RecipeKind::mlp);
  Dumped dumped(config);
  dumped.request.recipe.kind = model::RecipeKind::mlp;
  dumped.request.tp_size = ranks;
  dumped.request.tp_rank = rank;
  dumped.sources = whole.sources();
  part.set_sources(cut(dumped.sources, ranks, weights_of, kTpKv));
  dumped.dump = part.parameters();
  return dumped;
}

}  // namespace

TEST_CASE("every TP rank holds its cut of each part, and KV heads are shared where ranks outnumber them") {
  for (const unsigned ranks : {2u, 4u}) {
    for (unsigned rank = 0; rank < ranks; ++rank) {
      const Report report = tp_rank(ranks, rank, rank).audit();
      CAPTURE(ranks, rank, audit::to_text(report, 20));
      CHECK(report.equal());
      CHECK(report.not_judged.empty());
    }
  }
}

TEST_CASE("diagnosis: the weights of another TP rank") {
  const Report report = tp_rank(2, 0, 1).audit();
  CHECK(report.findings.size() > 10);
  for (const Finding& finding : report.findings) {
    CAPTURE(finding.tensor);
    CHECK(finding.diagnosis->sentence == "weights of TP rank 1 on rank 0");
  }
}

TEST_CASE("diagnosis: a fused tensor that was cut evenly, not part by part") {
  Dumped dumped = tp_rank(2, 1, 1);
  const std::string attention = "model.layers.1.self_attn.";
  Octets joined;
  for (const char* const part : {"q_proj.weight", "k_proj.weight", "v_proj.weight"}) {
    const Octets& bytes = dumped.sources.at(attention + part).bytes;
    joined.insert(joined.end(), bytes.begin(), bytes.end());
  }
  dumped.dump[attention + "qkv_proj.weight"].bytes.assign(
      joined.begin() + static_cast<std::ptrdiff_t>(joined.size() / 2), joined.end());
  check_diagnoses(dumped.audit(),
                  {{attention + "qkv_proj.weight", "the joined tensor was cut evenly, not part by part"}});
}

TEST_CASE("an EP rank holds a range of whole experts, and another rank's are named") {
  const Refit whole(test::kTinyConfig);
  for (const unsigned weights_of : {0u, 1u}) {
    Dumped dumped;
    dumped.request.ep_size = 2;
    dumped.request.ep_rank = 1;
    dumped.sources = whole.sources();
    dumped.dump = whole.parameters();
    for (auto& [name, tensor] : dumped.dump.map) {
      if (!has(name, {".experts.w"})) continue;
      tensor.bytes = rows_of(tensor, 4 * weights_of, 4);
      tensor.shape[0] = 4;
    }
    const Report report = dumped.audit();
    if (weights_of == 1) {
      CHECK(report.equal());
      exchange(dumped.dump[kW13].bytes, 4, 2, 3);
      check_diagnoses(dumped.audit(), {{kW13, "values of experts 6 and 7 exchanged"}});
    } else {
      CHECK(report.findings.size() == 8);
      for (const Finding& finding : report.findings) {
        CHECK(finding.diagnosis->sentence == "weights of EP rank 0 on rank 1");
      }
    }
  }
}

TEST_CASE("what does not divide by the ranks is refused with the numbers") {
  const auto refused = [](std::uint32_t tp, std::uint32_t ep, auto... words) {
    Dumped dumped = tp_rank(2, 0, 0);
    dumped.request.tp_size = tp;
    dumped.request.ep_size = ep;
    check_input_error([&] { (void)dumped.audit(); }, words...);
  };
  refused(3, 1, "8 attention heads", "3");
  refused(1, 3, "4 experts", "3");
  refused(8, 1, "rows an expert", "multiple of 128");
  Dumped moon = tiny();
  moon.request.tp_rank = 1;
  check_input_error([&] { (void)moon.audit(); }, "--tp-rank 1");
}

TEST_CASE("kinds of tensors whose split is not known are refused by name under TP") {
  const std::string config = R"({"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
    "hidden_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4,
    "qk_nope_head_dim": 32, "qk_rope_head_dim": 32, "v_head_dim": 32, "kv_lora_rank": 64, "q_lora_rank": 64,
    "intermediate_size": 512, "moe_intermediate_size": 128, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "n_shared_experts": 1, "first_k_dense_replace": 0, "vocab_size": 1024, "tie_word_embeddings": false,
    "torch_dtype": "bfloat16"})";
  const Refit refit(config);
  Dumped dumped(config);
  dumped.sources = refit.sources();
  dumped.dump = refit.parameters();
  CHECK(dumped.audit().equal());
  // As vLLM and SGLang join them.
  const std::string attention = "model.layers.0.self_attn.";
  Tensors::Tensor joined = dumped.dump.at(attention + "q_a_proj.weight");
  const Tensors::Tensor& below = dumped.dump.at(attention + "kv_a_proj_with_mqa.weight");
  joined.shape[0] += below.shape[0];
  joined.bytes.insert(joined.bytes.end(), below.bytes.begin(), below.bytes.end());
  dumped.dump.map.erase(attention + "q_a_proj.weight");
  dumped.dump.map.erase(attention + "kv_a_proj_with_mqa.weight");
  for (const char* const name : {"fused_qkv_a_proj.weight", "fused_qkv_a_proj_with_mqa.weight"}) {
    dumped.dump[attention + name] = joined;
    const Report report = dumped.audit();
    CAPTURE(audit::to_text(report, 10));
    CHECK(report.equal());
    CHECK(report.not_judged.empty());
    dumped.dump.map.erase(attention + name);
  }
  CHECK(dumped.audit().findings.size() == 2);
  dumped.request.tp_size = 2;
  check_input_error([&] { (void)dumped.audit(); }, "attention_other", "--tp-size 1");
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

TEST_CASE("the audit of a dump is the same for any number of threads") {
  Dumped dumped = tiny();
  dumped.dump[kW13].bytes[77] ^= 1;
  exchange(dumped.dump[kW2].bytes, kExperts, 2, 3);
  CHECK(audit::to_json(dumped.audit(1)) != "");
  const auto text = [&](unsigned threads) { return audit::to_text(dumped.audit(threads), 10); };
  CHECK(text(1) == text(4));
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
  CHECK(audit::to_junit(compare(a, b)) ==
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<testsuite name=\"refit-verify files\" tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\">\n"
        "  <testcase classname=\"refit-verify.files\" name=\"x&lt;&quot;&amp;&gt;?\"><failure type=\"bytes\" "
        "message=\"x&lt;&quot;&amp;&gt;?: 1 of 1 elements differ, the first at [0] is 2 (0x02), expected 1 "
        "(0x01)?\"/>"
        "</testcase>\n"
        "  <testcase classname=\"refit-verify.files\" name=\"y\"/>\n"
        "</testsuite>\n");
}
