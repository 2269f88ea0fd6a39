// A dump of an engine: what the host's refit makes of weights, and its audit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "refit/audit/engine.hpp"
#include "refit/base/error.hpp"
#include "refit/device/backend.hpp"
#include "refit/device/weights.hpp"
#include "support/tensors.hpp"
#include "support/tiny_model.hpp"

namespace refit::test {

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
    device::fill_weights(device::weight_boxes(plan_, weights_), 1, pool);
  }

  void step(std::uint64_t number) {
    ThreadPool pool(1);
    device::update_weights(device::weight_boxes(plan_, weights_), 1, number, pool);
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
    backend->run(all_tasks(plan_, weights_.data(), arena.data()));
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

inline std::vector<std::uint16_t> words_of(const Tensors::Tensor& tensor) {
  std::vector<std::uint16_t> words(tensor.bytes.size() / 2);
  std::memcpy(words.data(), tensor.bytes.data(), tensor.bytes.size());
  return words;
}

/// BF16 matrices as a trainer sends them in MXFP8, where `chosen` says so of their names.
template <typename Chosen>
Tensors quantized(const Tensors& sources, const Chosen& chosen, const quant::Options& options,
                  const std::string& suffix = "_scale", DType scale_dtype = DType::u8) {
  Tensors out;
  for (const auto& [name, tensor] : sources.map) {
    if (!chosen(name)) {
      out[name] = tensor;
      continue;
    }
    const std::vector<std::uint16_t> words = words_of(tensor);
    Octets q(words.size()), scales(words.size() / quant::kBlock);
    quant::quantize_blocks(words, options, q, scales);
    out[name] = {DType::f8_e4m3, tensor.shape, q};
    out[name + suffix] = {scale_dtype, {tensor.shape[0], tensor.shape[1] / quant::kBlock}, scales};
  }
  return out;
}

/// An audit of a dump against sources.
struct Dumped {
  Tensors sources, dump;
  std::optional<Tensors> previous;
  audit::EngineRequest request;

  explicit Dumped(const std::string& config = kTinyConfig) {
    request.model = model::parse_inventory(config, "test config");
    request.recipe.kind = model::default_recipe(request.model);
    request.layout = audit::Layout::flashinfer_trtllm;
    request.quant.zero_scale = quant::ZeroScale::one;
  }
  [[nodiscard]] audit::Report audit(unsigned threads = 2) const {
    const TempDir folder;
    const auto source = checkpoint::Checkpoint::open(sources.file(folder, "src.safetensors"));
    const auto file = checkpoint::Checkpoint::open(dump.file(folder, "dump.safetensors"));
    std::optional<checkpoint::Checkpoint> before;
    if (previous) before = checkpoint::Checkpoint::open(previous->file(folder, "previous.safetensors"));
    ThreadPool pool(threads);
    return audit::audit_engine(request, source, file, before ? &*before : nullptr, pool);
  }
};

/// The tiny model, refitted right.
inline Dumped tiny() {
  Dumped dumped;
  const Refit refit(kTinyConfig);
  dumped.sources = refit.sources();
  dumped.dump = refit.parameters();
  return dumped;
}

inline const std::string kW13 = "model.layers.1.mlp.experts.w13_weight";
inline const std::string kW2 = "model.layers.2.mlp.experts.w2_weight";
inline constexpr std::uint64_t kExperts = 8, kW13Rows = 384, kHidden = 256, kW2Rows = 256, kWidth = 192;

inline std::string diagnosis_of(const audit::Report& report, const std::string& tensor) {
  const audit::Finding& finding = finding_of(report, tensor);
  REQUIRE(finding.diagnosis.has_value());
  return finding.diagnosis->sentence;
}
/// The audit finds these tensors alone, and says this of each.
inline void check_diagnoses(const audit::Report& report, const std::map<std::string, std::string>& expected) {
  CAPTURE(audit::to_text(report, 20));
  std::map<std::string, std::string> got;
  for (const audit::Finding& finding : report.findings) {
    got[finding.tensor] = finding.diagnosis ? finding.diagnosis->sentence : "none";
  }
  CHECK(got == expected);
}

/// Exchanges two equally large pieces of a tensor.
inline void exchange(Octets& bytes, std::uint64_t pieces, std::uint64_t a, std::uint64_t b) {
  const auto size = static_cast<std::ptrdiff_t>(bytes.size() / pieces);
  const auto at = [&](std::uint64_t piece) {
    return bytes.begin() + static_cast<std::ptrdiff_t>(piece) * size;
  };
  std::swap_ranges(at(a), at(a + 1), at(b));
}

}  // namespace refit::test
