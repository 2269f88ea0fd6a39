// A dump against the expectation: names found, bytes compared, differences explained.
#include "refit/audit/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <unordered_set>

#include "audit/diagnosis.hpp"
#include "audit/weights.hpp"
#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"

namespace refit::audit {
namespace {

using checkpoint::Checkpoint;

template <typename Value>
struct Named {
  Value value;
  std::string_view name;
};
constexpr std::array engines{Named<Engine>{Engine::vllm, "vllm"}, Named<Engine>{Engine::sglang, "sglang"}};
constexpr std::array layouts{Named<Layout>{Layout::checkpoint, "checkpoint"},
                             Named<Layout>{Layout::linear_128x4, "linear-128x4"},
                             Named<Layout>{Layout::flashinfer_trtllm, "flashinfer-trtllm"}};

template <typename Table, typename Value>
std::string_view find_name(const Table& table, Value value) noexcept {
  for (const auto& row : table) {
    if (row.value == value) return row.name;
  }
  return "";
}
template <typename Value, std::size_t size>
std::optional<Value> find_value(const std::array<Named<Value>, size>& table, std::string_view name) noexcept {
  for (const auto& row : table) {
    if (row.name == name) return row.value;
  }
  return std::nullopt;
}

/// Scales are bytes under either name.
bool same_dtype(DType a, DType b) {
  const auto byte = [](DType dtype) { return dtype == DType::f8_e8m0 ? DType::u8 : dtype; };
  return byte(a) == byte(b);
}

/// NeMo-RL drops a trailing dimension of 1 of scales. The bytes of tiles have no dimensions of their own:
/// some engines keep [E, rows, K / 32], others [E, bytes].
bool same_shape(const Target& target, const Shape& expected, const Shape& got) {
  if (expected == got) return true;
  if (target.role != Role::scales) return false;
  if (target.form == ScaleForm::tiled_128x4) return num_elements(expected) == num_elements(got);
  return expected.back() == 1 && Shape(expected.begin(), expected.end() - 1) == got;
}

/// A target that the dump has.
struct Match {
  Match(const Target& its_target, const Checkpoint::Tensor& its_tensor, Way its_way)
      : target(its_target), tensor(its_tensor), right(std::move(its_way)), tally(its_tensor.spec.dtype) {}
  const Target& target;
  const Checkpoint::Tensor& tensor;
  Way right;
  ElementTally tally;
  std::optional<Finding> finding;
};

class EngineAudit {
 public:
  EngineAudit(const Expectation& expectation, const Renderer& renderer, const Checkpoint& dump,
              ThreadPool& pool)
      : expectation_(expectation), renderer_(renderer), dump_(dump), pool_(pool) {}

  Report run() {
    find_tensors();
    compare();
    explain();
    add_notes();
    return std::move(report_);
  }

 private:
  void find_tensors() {
    std::unordered_set<std::string_view> used;
    for (const Target& target : expectation_.targets) {
      const auto there = [&](const std::string& one) { return dump_.find(one) != nullptr; };
      bool found = false;
      // Under every name: which of two the engine reads, nobody can tell from a dump.
      for (const std::string& name : target.names) {
        if (!there(name)) continue;
        found = true;
        used.insert(name);
        add_match(target, *dump_.find(name));
      }
      const bool elsewhere = std::any_of(target.unless.begin(), target.unless.end(), there);
      if (!found && !target.optional && !elsewhere) add_missing(target);
    }
    for (const Checkpoint::Tensor& tensor : dump_.tensors()) {
      if (!used.contains(tensor.spec.name)) report_.not_judged.push_back(tensor.spec.name);
    }
  }

  void add_missing(const Target& target) {
    const Way right = renderer_.right_way(target);
    report_.judged.push_back(target.names.front());
    report_.findings.push_back({.tensor = target.names.front(),
                                .fault = Fault::missing,
                                .expected = fmt::format("{} {}", name_of(Renderer::dtype(target, right)),
                                                        to_string(renderer_.shape(target, right))),
                                .got = "no such tensor"});
  }

  void add_match(const Target& target, const Checkpoint::Tensor& tensor) {
    const TensorSpec& spec = tensor.spec;
    Way right = renderer_.right_way(target);
    // Engines pad a vocabulary; dumps of refit's own parameters do not.
    const bool unpadded = right.vocab_rows > 0 && expectation_.request.tp_size == 1 && !spec.shape.empty() &&
                          spec.shape[0] == expectation_.request.model.dims.vocab;
    if (unpadded) right.vocab_rows = spec.shape[0];
    if (target.role == Role::values && spec.dtype != target.parameter->dtype &&
        spec.dtype == renderer_.cast_to(target)) {
      right.cast_to = spec.dtype;
      ++(spec.dtype == DType::bf16 ? rounded_ : widened_);
    }
    report_.judged.push_back(spec.name);
    Match& match = matches_.emplace_back(target, tensor, right);
    const Shape shape = renderer_.shape(target, right);
    const DType dtype = Renderer::dtype(target, right);
    if (!same_dtype(dtype, spec.dtype)) {
      match.finding = Finding{.tensor = spec.name,
                              .fault = Fault::dtype,
                              .expected = std::string(name_of(dtype)),
                              .got = std::string(name_of(spec.dtype))};
    } else if (!same_shape(target, shape, spec.shape)) {
      match.finding = Finding{.tensor = spec.name,
                              .fault = Fault::shape,
                              .expected = to_string(shape),
                              .got = to_string(spec.shape)};
    } else {
      report_.bytes += spec.bytes();
    }
  }

  void compare() {
    struct Work {
      Match* match;
      Range range;
    };
    std::vector<Work> work;
    for (Match& match : matches_) {
      if (match.finding) continue;
      for (const Range& range : renderer_.ranges(match.target, match.right)) work.push_back({&match, range});
    }
    pool_.for_range(work.size(), 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        Match& match = *work[i].match;
        const Range& range = work[i].range;
        const auto expected = renderer_.render(match.target, match.right, range);
        match.tally.compare(std::as_bytes(std::span(expected)),
                            dump_.data(match.tensor).subspan(range.begin, range.bytes),
                            range.begin / size_of(match.tensor.spec.dtype));
      }
    });
    for (Match& match : matches_) {
      if (!match.finding) match.finding = match.tally.finding(match.tensor.spec);
    }
  }

  void explain() {
    std::vector<Match*> wrong;
    for (Match& match : matches_) {
      if (match.finding) wrong.push_back(&match);
    }
    pool_.for_range(wrong.size(), 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        Match& match = *wrong[i];
        match.finding->diagnosis = diagnose({renderer_, match.target, match.right, dump_.data(match.tensor)});
      }
    });
    for (const Match* match : wrong) report_.findings.push_back(*match->finding);
  }

  /// What became of sources that are not BF16.
  void add_notes() {
    std::size_t mxfp8 = 0, quantized = 0;
    for (std::size_t i = 0; i < renderer_.current().size(); ++i) {
      const Weight& weight = renderer_.current()[i];
      mxfp8 += weight.mxfp8;
      quantized += !weight.mxfp8 && expectation_.request.model.tensors[i].spec.dtype != weight.dtype;
    }
    const auto note = [&](std::size_t count, const char* what) {
      if (count > 0)
        report_.notes.push_back(fmt::format("{} tensor{} {}", count, count == 1 ? "" : "s", what));
    };
    note(mxfp8, "of the source already MXFP8: values and scales expected as they are");
    note(quantized, "of F32 or F16 rounded to BF16 (to nearest even) before quantizing");
    note(rounded_, "of the dump cast from F32 or F16 to BF16");
    note(widened_, "of the dump in F32 with what the source has in BF16 or F16");
  }

  const Expectation& expectation_;
  const Renderer& renderer_;
  const Checkpoint& dump_;
  ThreadPool& pool_;
  std::size_t rounded_ = 0, widened_ = 0;  ///< matches that are casts
  std::deque<Match> matches_;
  Report report_;
};

void describe(const EngineRequest& request, Report& report) {
  const auto add = [&](const char* name, std::string value) {
    report.inputs.emplace_back(name, std::move(value));
  };
  add("engine", std::string(name_of(request.engine)));
  add("layout", std::string(name_of(request.layout)));
  add("recipe", std::string(model::name_of(request.recipe.kind)));
  add("quantizer", words({request.quant.rounding, request.quant.zero_scale}));
  add("tp", fmt::format("rank {} of {}", request.tp_rank, request.tp_size));
  add("ep", fmt::format("rank {} of {}", request.ep_rank, request.ep_size));
}

}  // namespace

std::string_view name_of(Engine engine) noexcept {
  return find_name(engines, engine);
}
std::optional<Engine> parse_engine(std::string_view name) noexcept {
  return find_value(engines, name);
}
std::string_view name_of(Layout layout) noexcept {
  return find_name(layouts, layout);
}
std::optional<Layout> parse_layout(std::string_view name) noexcept {
  return find_value(layouts, name);
}

Report audit_engine(const EngineRequest& request, const Checkpoint& source, const Checkpoint& dump,
                    const Checkpoint* previous, ThreadPool& pool) {
  const Weights current = read_weights(source, request.model);
  std::optional<Weights> before;
  if (previous != nullptr) {
    before = read_weights(*previous, request.model);
    require_alike(*previous, *before, current, request.model);
  }
  const Expectation expectation = expect(with_dtypes(request, source, current));
  const Renderer renderer(expectation, current, before ? &*before : nullptr);
  Report report = EngineAudit(expectation, renderer, dump, pool).run();
  report.command = "engine";
  report.inputs = {{"source", source.path()}, {"dump", dump.path()}};
  if (previous != nullptr) report.inputs.emplace_back("previous", previous->path());
  describe(request, report);
  return report;
}

}  // namespace refit::audit
