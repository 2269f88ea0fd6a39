// From a plan to parameters and their names, and what cannot be split.
#include "audit/parameter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"
#include "refit/model/split.hpp"

namespace refit::audit {
namespace {

using model::Kind;

constexpr std::string_view joined_module = ".fused_qkv_a_proj.";

/// How the engines cut a source; Error(input) for what is not known.
Split split_of(const plan::Source& source, const EngineRequest& request) {
  if (model::is_routed_expert(source.kind) && request.ep_size > 1) return Split::none;
  switch (model::split_of({.spec = source.spec, .kind = source.kind}, request.model.dims)) {
    case model::Split::whole:
      return Split::none;
    case model::Split::rows:
    case model::Split::halves:
      return Split::rows;
    case model::Split::head_rows:
      return Split::kv_heads;
    case model::Split::vocab_rows:
      return Split::vocab;
    case model::Split::columns:
    case model::Split::slab_columns:
      return Split::cols;
    case model::Split::unknown:
      break;
  }
  if (request.tp_size == 1) return Split::none;
  fail_input(
      fmt::format("how {} ranks split {} ({}) is not known here; dumps of this model can be judged with "
                  "--tp-size 1 alone",
                  request.tp_size, source.spec.name, model::name_of(source.kind)));
}

class Builder {
 public:
  explicit Builder(const EngineRequest& request) {
    out_.request = request;
    plan::Request plan_request;
    plan_request.model = request.model;
    plan_request.recipe = request.recipe;
    plan_request.moe_layout = request.layout == Layout::flashinfer_trtllm ? plan::MoeLayout::flashinfer_trtllm
                                                                          : plan::MoeLayout::checkpoint;
    plan_request.quant = request.quant;
    out_.plan = plan::build(plan_request);
  }

  Expectation build() {
    check_ranks();
    add_parameters();
    add_joined();
    for (const Parameter& parameter : out_.parameters) {
      check_split(parameter);
      add_targets(parameter);
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] const EngineRequest& request() const { return out_.request; }

  void check_ranks() const {
    const EngineRequest& r = request();
    if (r.tp_size == 0 || r.tp_rank >= r.tp_size) {
      fail_input(fmt::format("--tp-rank {} is not one of {} ranks", r.tp_rank, r.tp_size));
    }
    if (r.ep_size == 0 || r.ep_rank >= r.ep_size) {
      fail_input(fmt::format("--ep-rank {} is not one of {} ranks", r.ep_rank, r.ep_size));
    }
    const model::Dimensions& dims = r.model.dims;
    if (r.ep_size > 1 && (dims.experts == 0 || dims.experts % r.ep_size != 0)) {
      fail_input(fmt::format("{} experts do not divide by --ep-size {}", dims.experts, r.ep_size));
    }
    if (dims.heads % r.tp_size != 0) {
      fail_input(fmt::format("{} attention heads do not divide by --tp-size {}", dims.heads, r.tp_size));
    }
    const bool shared = dims.kv_heads != 0 && r.tp_size % dims.kv_heads == 0;
    if (dims.kv_heads % r.tp_size != 0 && !shared) {
      fail_input(fmt::format("{} KV heads and --tp-size {}: neither divides by the other", dims.kv_heads,
                             r.tp_size));
    }
    if (model::padded_rows(dims.vocab, model::kEngineVocabularyMultiple) % r.tp_size != 0) {
      fail_input(fmt::format("a vocabulary of {} rows, padded to {}, does not divide by --tp-size {}",
                             dims.vocab, model::padded_rows(dims.vocab, model::kEngineVocabularyMultiple),
                             r.tp_size));
    }
  }

  void add_parameters() {
    const plan::Plan& plan = out_.plan;
    std::vector<std::size_t> number(plan.destinations.size());
    for (std::size_t d = 0; d < plan.destinations.size(); ++d) {
      const plan::Destination& destination = plan.destinations[d];
      if (destination.scale_of != plan::kNone) continue;
      number[d] = out_.parameters.size();
      out_.parameters.push_back({.name = destination.spec.name,
                                 .dtype = destination.spec.dtype,
                                 .shape = destination.spec.shape,
                                 .matrices = std::vector<std::vector<Part>>(destination.matrices),
                                 .quantized = destination.scale != plan::kNone,
                                 .gated = destination.gated});
    }
    std::vector<const plan::Segment*> segments;
    for (const plan::Segment& segment : plan.segments) {
      if (segment.op != plan::Op::zero) segments.push_back(&segment);
    }
    std::stable_sort(segments.begin(), segments.end(), [](const auto* a, const auto* b) {
      return std::tuple(a->destination, a->matrix, a->row_begin) <
             std::tuple(b->destination, b->matrix, b->row_begin);
    });
    for (const plan::Segment* segment : segments) {
      add_parts(*segment, out_.parameters[number[segment->destination]]);
    }
  }

  /// DeepSeek's latent attention: vLLM's fused_qkv_a_proj and SGLang's fused_qkv_a_proj_with_mqa hold q_a
  /// above kv_a. Older versions, and models without q_a, keep them apart.
  void add_joined() {
    constexpr std::string_view above = ".q_a_proj.weight", below = ".kv_a_proj_with_mqa.weight";
    std::vector<Parameter> joined;
    for (Parameter& first : out_.parameters) {
      if (!first.name.ends_with(above)) continue;
      const std::string prefix = first.name.substr(0, first.name.size() - above.size());
      const auto second =
          std::find_if(out_.parameters.begin(), out_.parameters.end(), [&](const Parameter& other) {
            return other.name == prefix + std::string(below) && other.quantized == first.quantized &&
                   other.dtype == first.dtype;
          });
      if (second == out_.parameters.end()) continue;
      Parameter& both = joined.emplace_back(first);
      both.name = first.joined_as = second->joined_as = prefix + std::string(joined_module) + "weight";
      both.is_joined = true;
      both.shape[0] += second->shape[0];
      both.matrices[0].push_back(second->matrices[0][0]);
    }
    std::move(joined.begin(), joined.end(), std::back_inserter(out_.parameters));
  }

  void add_parts(const plan::Segment& segment, Parameter& parameter) const {
    const plan::Source& source = out_.plan.sources[segment.source];
    std::vector<Part>& parts = parameter.matrices[segment.matrix];
    if (segment.matrix == 0 && parts.empty()) {
      parameter.kind = source.kind;
      parameter.experts = parameter.name.ends_with(".w13_weight") || parameter.name.ends_with(".w2_weight");
    }
    check_slab(source, parameter);
    Part part{.source = segment.source,
              .row = segment.source_row,
              .rows = segment.rows,
              .cols = segment.cols,
              .split = split_of(source, request())};
    if (source.kind == Kind::expert_gate_up_slab && parameter.gated) {  // gate rows above up rows
      part.rows /= 2;
      parts.push_back(part);
      part.row += part.rows;
    }
    parts.push_back(part);
  }

  /// Slabs that the engine keeps as they are have rows that are no expert's.
  void check_slab(const plan::Source& source, const Parameter& parameter) const {
    const bool slab = source.kind == Kind::expert_gate_up_slab || source.kind == Kind::expert_down_slab ||
                      source.kind == Kind::expert_bias_slab;
    if (!slab || parameter.experts || (request().tp_size == 1 && request().ep_size == 1)) return;
    fail_input(
        fmt::format("how ranks split {} ({}) is not known here; dumps of this model can be judged with "
                    "--tp-size 1 and --ep-size 1 alone",
                    source.spec.name, model::name_of(source.kind)));
  }

  void check_split(const Parameter& parameter) const {
    const std::uint64_t tp = request().tp_size;
    if (tp == 1) return;
    std::uint64_t rows = 0;
    for (const Part& part : parameter.matrices.empty() ? std::vector<Part>{} : parameter.matrices.front()) {
      const std::string& name = out_.plan.sources[part.source].spec.name;
      if (part.split == Split::rows && part.rows % tp != 0) {
        fail_input(fmt::format("{} has {} rows, which do not divide by --tp-size {}", name, part.rows, tp));
      }
      const std::uint64_t unit = parameter.quantized ? quant::kBlock : 1;
      if (part.split == Split::cols && part.cols % (tp * unit) != 0) {
        fail_input(fmt::format("{} has {} columns, which do not divide by --tp-size {}{}", name, part.cols,
                               tp, unit > 1 ? fmt::format(" into blocks of {}", unit) : ""));
      }
      rows += part.split == Split::rows ? part.rows / tp : part.rows;
    }
    if (parameter.experts && parameter.quantized && request().layout == Layout::flashinfer_trtllm &&
        rows % 128 != 0) {
      fail_input(
          fmt::format("{} has {} rows an expert on each of {} ranks, and the MoE layout {} needs a "
                      "multiple of 128",
                      parameter.name, rows, tp, name_of(request().layout)));
    }
  }

  /// The name, as vLLM 0.25 has it, which nests the experts' parameters one module deeper, and SGLang's.
  static std::vector<std::string> names_of(const std::string& name, std::string_view suffix) {
    std::vector<std::string> names = {name + std::string(suffix)};
    const auto also = [&](std::string_view module, std::string_view other) {
      const std::size_t at = name.rfind(module);
      if (at == name.npos) return;
      names.push_back(name.substr(0, at) + std::string(other) + name.substr(at + module.size()) +
                      std::string(suffix));
    };
    also(".experts.w", ".experts.routed_experts.w");
    also(joined_module, ".fused_qkv_a_proj_with_mqa.");
    return names;
  }

  void add_targets(const Parameter& parameter) {
    const std::size_t first = out_.targets.size();
    add_named_targets(parameter);
    add_tied_head(parameter);
    for (std::size_t i = first; i < out_.targets.size(); ++i) {
      Target& target = out_.targets[i];
      target.optional = target.optional || parameter.is_joined;
      if (!parameter.joined_as.empty()) target.unless = names_of(parameter.joined_as, "");
    }
  }

  /// A tied head is no parameter of its own, but state_dict() has it all the same.
  void add_tied_head(const Parameter& parameter) {
    if (parameter.kind != Kind::embedding || !request().model.dims.tied_embeddings) return;
    out_.targets.push_back({.parameter = &parameter, .names = {"lm_head.weight"}, .optional = true});
  }

  void add_named_targets(const Parameter& parameter) {
    const bool trtllm = request().layout == Layout::flashinfer_trtllm;
    const bool shuffled = parameter.quantized && parameter.experts && trtllm;
    out_.targets.push_back(
        {.parameter = &parameter, .shuffled = shuffled, .names = names_of(parameter.name, "")});
    if (!parameter.quantized) return;
    const bool tiled = parameter.experts ? trtllm : request().layout != Layout::checkpoint;
    Target scales{.parameter = &parameter,
                  .role = Role::scales,
                  .shuffled = shuffled,
                  .form = tiled ? ScaleForm::tiled_128x4 : ScaleForm::row_major,
                  .names = names_of(parameter.name, "_scale")};
    // What canonical scales are kept in for the next refit.
    Target canonical{.parameter = &parameter,
                     .role = Role::scales,
                     .names = names_of(parameter.name, "_scale_from_checkpoint"),
                     .optional = true};
    if (request().engine == Engine::sglang) {
      // SGLang's fp8.py registers weight_scale_inv for MXFP8 too, and keeps a linear layer's 128x4 form
      // beside it; its ModelOpt path says weight_scale.
      const bool beside = tiled && !parameter.experts;
      if (beside) canonical.names = names_of(parameter.name, "_scale_inv");
      const auto own = names_of(parameter.name, beside ? "_scale_inv_swizzled" : "_scale_inv");
      scales.names.insert(scales.names.begin(), own.begin(), own.end());
    }
    out_.targets.push_back(std::move(scales));
    out_.targets.push_back(std::move(canonical));
  }

  Expectation out_;
};

}  // namespace

Expectation expect(const EngineRequest& request) {
  return Builder(request).build();
}

}  // namespace refit::audit
