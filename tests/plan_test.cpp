// Plans, switches and the wire: what is written where, under which key, and what is refused.
//
// A naive executor runs the segments of small plans and counts the writes of every byte; what they should
// hold is built apart from the plan, from the model's own tensors and the layout module's per-expert
// references.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "plan/digest.hpp"
#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "refit/layout/moe_shuffle.hpp"
#include "refit/layout/scale_128x4.hpp"
#include "refit/model/inventory.hpp"
#include "refit/plan/plan.hpp"
#include "refit/plan/switches.hpp"
#include "refit/plan/wire.hpp"
#include "refit/quant/mxfp8.hpp"
#include "support/catch.hpp"

namespace {

using namespace refit;
using namespace refit::plan;
using model::Kind;
using model::RecipeKind;

using Bytes = std::vector<std::uint8_t>;

// --- building models ----

model::Tensor tensor(std::string name, Shape shape, Kind kind, DType dtype = DType::bf16, int expert = -1) {
  return {.spec = {.name = std::move(name), .shape = std::move(shape), .dtype = dtype},
          .kind = kind,
          .layer = 0,
          .expert = expert};
}

Request request_of(std::vector<model::Tensor> tensors, RecipeKind recipe,
                   MoeLayout layout = MoeLayout::flashinfer_trtllm, std::uint64_t hidden = 0) {
  Request request;
  request.model.tensors = std::move(tensors);
  request.model.dims.hidden = hidden;
  request.recipe.kind = recipe;
  request.moe_layout = layout;
  return request;
}

/// Expert projections of one layer, expert by expert; `gated` adds gate_proj.
std::vector<model::Tensor> experts(const std::string& prefix, int count, std::uint64_t hidden,
                                   std::uint64_t width, bool gated) {
  std::vector<model::Tensor> tensors;
  for (int e = 0; e < count; ++e) {
    const std::string name = prefix + ".experts." + std::to_string(e);
    if (gated) {
      tensors.push_back(
          tensor(name + ".gate_proj.weight", {width, hidden}, Kind::expert_gate, DType::bf16, e));
    }
    tensors.push_back(tensor(name + ".up_proj.weight", {width, hidden}, Kind::expert_up, DType::bf16, e));
    tensors.push_back(tensor(name + ".down_proj.weight", {hidden, width}, Kind::expert_down, DType::bf16, e));
  }
  return tensors;
}

std::string config_path(const std::string& model) {
  return std::string(REFIT_TESTS_DIR) + "/cases/configs/" + model + "/config.json";
}

const Destination& destination(const Plan& plan, std::string_view name) {
  const auto found = std::find_if(plan.destinations.begin(), plan.destinations.end(),
                                  [&](const Destination& each) { return each.spec.name == name; });
  if (found == plan.destinations.end())
    throw std::runtime_error("the plan has no destination " + std::string(name));
  return *found;
}

const Segment& segment(const Plan& plan, std::string_view wire_name) {
  const auto found = std::find_if(plan.segments.begin(), plan.segments.end(),
                                  [&](const Segment& each) { return each.wire_name == wire_name; });
  if (found == plan.segments.end())
    throw std::runtime_error("the plan has no segment " + std::string(wire_name));
  return *found;
}

// --- refusals ----

/// The sentence with which `body` is refused as bad input.
std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "(was not refused)";
}

void check_refused(const std::function<void()>& body, std::initializer_list<std::string> words) {
  const std::string sentence = refusal(body);
  CAPTURE(sentence);
  for (const std::string& word : words) {
    CAPTURE(word);
    CHECK(sentence.find(word) != std::string::npos);
  }
}

// --- the naive executor ----

struct Execution {
  Bytes bytes;                       // the generator's arena
  std::vector<std::uint8_t> writes;  // how often each byte was written
};

class Executor {
 public:
  Executor(const Plan& plan, const Bytes& sources, std::uint8_t poison)
      : plan_(plan),
        sources_(sources),
        result_{Bytes(plan.destination_arena_bytes, poison),
                std::vector<std::uint8_t>(plan.destination_arena_bytes)} {}

  Execution run() {
    for (const Segment& each : plan_.segments) {
      for (std::uint64_t r = 0; r < each.rows; ++r) execute_row(each, r);
    }
    return std::move(result_);
  }

 private:
  void write(std::uint64_t at, std::uint8_t byte) {
    result_.bytes.at(at) = byte;
    result_.writes.at(at) += 1;
  }

  void execute_row(const Segment& each, std::uint64_t r) {
    const Destination& to = plan_.destinations[each.destination];
    const std::uint64_t matrix = to.offset + each.matrix * to.matrix_bytes;
    if (each.op == Op::zero) {
      for (std::uint64_t c = 0; c < each.cols; ++c)
        write(matrix + scale_offset(to, each.row_begin + r, c), 0);
      return;
    }
    const Source& from = plan_.sources[each.source];
    const std::uint64_t row_bytes = each.cols * size_of(from.spec.dtype);
    const std::uint8_t* row = sources_.data() + from.offset + (each.source_row + r) * row_bytes;
    const std::uint64_t stored = stored_row(plan_, each, r);
    if (each.op == Op::quantize) {
      quantize_row(each, row, stored);
      return;
    }
    for (std::uint64_t i = 0; i < row_bytes; ++i) {
      // Rounding through BF16 clears the lower half of a float that needs no carry; the tests use such
      // floats.
      const bool cleared = each.op == Op::round_bf16 && i % 4 < 2;
      write(matrix + stored * row_bytes + i, cleared ? std::uint8_t{0} : row[i]);
    }
  }

  void quantize_row(const Segment& each, const std::uint8_t* row, std::uint64_t stored) {
    const Destination& weight = plan_.destinations[each.destination];
    const Destination& scale = plan_.destinations[weight.scale];
    const std::uint64_t values = weight.offset + each.matrix * weight.matrix_bytes + stored * each.cols;
    const std::uint64_t scales = scale.offset + each.matrix * scale.matrix_bytes;
    std::uint64_t block = 0;
    for (; block < each.cols / 32; ++block) {
      std::array<std::uint16_t, 32> in;
      std::array<std::uint8_t, 32> out;
      std::memcpy(in.data(), row + 64 * block, 64);
      write(scales + scale_offset(scale, stored, block),
            quant::quantize_block_reference(in, plan_.quant, out));
      for (std::uint64_t i = 0; i < 32; ++i) write(values + 32 * block + i, out[i]);
    }
    for (; scale.scale_layout == ScaleLayout::tiled_128x4 && block % 4 != 0; ++block) {
      write(scales + scale_offset(scale, stored, block), 0);
    }
  }

  const Plan& plan_;
  const Bytes& sources_;
  Execution result_;
};

constexpr std::uint8_t poison = 0xA5;

/// Finite BF16 patterns everywhere, as bytes.
Bytes random_sources(const Plan& plan, std::mt19937_64& random) {
  Bytes bytes(plan.source_arena_bytes);
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    const auto bits = static_cast<std::uint16_t>(random());
    bytes[i] = static_cast<std::uint8_t>(bits);
    const auto high = static_cast<std::uint8_t>(bits >> 8);
    bytes[i + 1] = (high & 0x7F) == 0x7F ? std::uint8_t(high & 0xBF) : high;
  }
  return bytes;
}

Bytes slice_of(const Bytes& arena, std::uint64_t offset, std::uint64_t bytes) {
  const auto first = arena.begin() + static_cast<std::ptrdiff_t>(offset);
  return {first, first + static_cast<std::ptrdiff_t>(bytes)};
}

Bytes parameter_bytes(const Plan& plan, const Execution& done, const std::string& name) {
  const Destination& to = destination(plan, name);
  return slice_of(done.bytes, to.offset, to.spec.bytes());
}

/// Every byte of every parameter written once, and no other byte of the arena.
void check_coverage(const Plan& plan, const Execution& done) {
  std::vector<std::uint8_t> expected(plan.destination_arena_bytes);
  std::uint64_t guarded = 0;
  for (const Destination& to : plan.destinations) {
    CAPTURE(to.spec.name, to.offset);
    REQUIRE(to.offset % kArenaAlignment == 0);
    REQUIRE(to.offset >= guarded + kArenaAlignment);
    REQUIRE(to.matrices * to.matrix_bytes == to.spec.bytes());
    guarded = to.offset + to.spec.bytes();
    for (std::uint64_t i = to.offset; i < guarded; ++i) expected.at(i) = 1;
  }
  REQUIRE(plan.destination_arena_bytes >= guarded + kArenaAlignment);
  CHECK(done.writes == expected);
}

// --- what parameters should hold, without the plan ----

enum class Form { linear, w13, w2 };

/// A parameter as the test knows it: the sources whose rows it joins, in order.
struct Expected {
  std::string name;
  std::vector<std::string> parts;
  Form form = Form::linear;
  std::uint64_t matrices = 1;
  bool quantized = false;
  bool gated = false;
};

struct Model {
  std::vector<model::Tensor> tensors;
  std::vector<Expected> parameters;
};

Bytes joined_sources(const Plan& plan, const Bytes& sources, const Expected& expected) {
  Bytes joined;
  for (const std::string& name : expected.parts) {
    const auto found = std::find_if(plan.sources.begin(), plan.sources.end(),
                                    [&](const Source& each) { return each.spec.name == name; });
    REQUIRE(found != plan.sources.end());
    const Bytes part = slice_of(sources, found->offset, found->spec.bytes());
    joined.insert(joined.end(), part.begin(), part.end());
  }
  return joined;
}

void append(Bytes& to, const Bytes& from) {
  to.insert(to.end(), from.begin(), from.end());
}

void check_parameter(const Plan& plan, const Bytes& sources, const Execution& done,
                     const Expected& expected) {
  CAPTURE(expected.name);
  const Bytes canonical = joined_sources(plan, sources, expected);
  const Destination& to = destination(plan, expected.name);
  if (!expected.quantized) {
    CHECK(parameter_bytes(plan, done, expected.name) == canonical);
    CHECK(to.scale == kNone);
    return;
  }
  Bytes values(canonical.size() / 2), scales(canonical.size() / 64);
  for (std::size_t block = 0; block < scales.size(); ++block) {
    std::array<std::uint16_t, 32> in;
    std::memcpy(in.data(), canonical.data() + 64 * block, 64);
    scales[block] = quant::quantize_block_reference(
        in, plan.quant, std::span<std::uint8_t, 32>(values.data() + 32 * block, 32));
  }
  const std::uint64_t cols = to.spec.shape.back();
  const std::uint64_t rows = values.size() / cols / expected.matrices;
  Bytes stored_values, stored_scales;
  for (std::uint64_t m = 0; m < expected.matrices; ++m) {
    const Bytes weight = slice_of(values, m * rows * cols, rows * cols);
    const Bytes scale = slice_of(scales, m * rows * cols / 32, rows * cols / 32);
    if (expected.form == Form::linear) {
      append(stored_values, weight);
      append(stored_scales, layout::tile_scales_128x4_reference(scale, rows, cols / 32));
    } else if (plan.moe_layout == MoeLayout::checkpoint) {
      append(stored_values, weight);
      append(stored_scales, scale);
    } else {
      const auto shuffled =
          expected.form == Form::w13
              ? layout::shuffle_w13_expert_reference(weight, scale, rows, cols, cols / 32, expected.gated)
              : layout::shuffle_w2_expert_reference(weight, scale, rows, cols, cols / 32);
      append(stored_values, shuffled.weight);
      append(stored_scales, shuffled.scales);
    }
  }
  CHECK(to.spec.dtype == DType::f8_e4m3);
  CHECK(parameter_bytes(plan, done, expected.name) == stored_values);
  CHECK(parameter_bytes(plan, done, expected.name + "_scale") == stored_scales);
}

/// A model of random sizes that its recipe and layout accept.
class RandomModel {
 public:
  RandomModel(std::mt19937_64& random, RecipeKind recipe, MoeLayout layout)
      : random_(random), recipe_(recipe), layout_(layout) {
    hidden_ = width(recipe != RecipeKind::none, trtllm() ? 128 : 32);
    copy("model.embed_tokens.weight", {pick({1, 31, 33}), hidden_}, Kind::embedding);
    for (int layer = 0; layer < 3; ++layer) add_layer("model.layers." + std::to_string(layer));
    copy("model.norm.weight", {hidden_}, Kind::norm);
    std::shuffle(made_.tensors.begin(), made_.tensors.end(), random_);
  }

  Model take() { return std::move(made_); }
  [[nodiscard]] std::uint64_t hidden() const { return hidden_; }

 private:
  [[nodiscard]] bool trtllm() const { return layout_ == MoeLayout::flashinfer_trtllm; }
  [[nodiscard]] bool mlp() const { return recipe_ == RecipeKind::mlp || recipe_ == RecipeKind::all_linear; }

  std::uint64_t pick(std::initializer_list<std::uint64_t> choices) {
    return choices.begin()[random_() % choices.size()];
  }
  /// A size whose K is quantized is a multiple of `unit`; any other may be odd.
  std::uint64_t width(bool quantized, std::uint64_t unit) {
    return quantized ? unit * pick({1, 2, 3}) : pick({1, 31, 33, 64});
  }

  void add(std::string name, Shape shape, Kind kind, int expert = -1, DType dtype = DType::bf16) {
    made_.tensors.push_back(tensor(std::move(name), std::move(shape), kind, dtype, expert));
  }
  void copy(const std::string& name, Shape shape, Kind kind, DType dtype = DType::bf16) {
    add(name, std::move(shape), kind, -1, dtype);
    made_.parameters.push_back({.name = name, .parts = {name}});
  }
  void expect(std::string name, std::vector<std::string> parts, bool quantized) {
    made_.parameters.push_back({.name = std::move(name), .parts = std::move(parts), .quantized = quantized});
  }

  void add_layer(const std::string& layer) {
    add_attention(layer + ".self_attn");
    copy(layer + ".input_layernorm.weight", {hidden_}, Kind::norm);
    switch (random_() % 4) {
      case 0:
        return add_gated_mlp(layer + ".mlp", Kind::mlp_gate, Kind::mlp_up, Kind::mlp_down);
      case 1:
        add_gated_mlp(layer + ".mlp.shared_experts", Kind::shared_gate, Kind::shared_up, Kind::shared_down);
        return add_experts(layer + ".mlp", true);
      case 2:
        add_shared_up_alone(layer + ".mixer.shared_experts");
        return add_experts(layer + ".mixer", false);
      default:
        return add_slabs(layer + ".mlp");
    }
  }

  void add_attention(const std::string& prefix) {
    const bool quantized = recipe_ == RecipeKind::all_linear;
    const std::uint64_t q = width(quantized, 32), kv = pick({1, 31, 33, 128});
    const std::array rows = {q, kv, kv};
    const std::array kinds = {Kind::attention_q, Kind::attention_k, Kind::attention_v};
    std::vector<std::string> weights, biases;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string name = prefix + "." + "qkv"[i] + "_proj.";
      add(name + "weight", {rows[i], hidden_}, kinds[i]);
      add(name + "bias", {rows[i]}, Kind::attention_bias);
      weights.push_back(name + "weight");
      biases.push_back(name + "bias");
    }
    expect(prefix + ".qkv_proj.weight", weights, quantized);
    expect(prefix + ".qkv_proj.bias", biases, false);
    add(prefix + ".o_proj.weight", {hidden_, q}, Kind::attention_o);
    expect(prefix + ".o_proj.weight", {prefix + ".o_proj.weight"}, quantized);
    copy(prefix + ".o_proj.bias", {hidden_}, Kind::attention_bias);
  }

  void add_gated_mlp(const std::string& prefix, Kind gate, Kind up, Kind down) {
    const std::uint64_t inner = width(mlp(), 32);
    add(prefix + ".gate_proj.weight", {inner, hidden_}, gate);
    add(prefix + ".up_proj.weight", {inner, hidden_}, up);
    add(prefix + ".down_proj.weight", {hidden_, inner}, down);
    expect(prefix + ".gate_up_proj.weight", {prefix + ".gate_proj.weight", prefix + ".up_proj.weight"},
           mlp());
    expect(prefix + ".down_proj.weight", {prefix + ".down_proj.weight"}, mlp());
  }

  void add_shared_up_alone(const std::string& prefix) {
    const std::uint64_t inner = width(mlp(), 32);
    add(prefix + ".up_proj.weight", {inner, hidden_}, Kind::shared_up);
    expect(prefix + ".up_proj.weight", {prefix + ".up_proj.weight"}, mlp());
  }

  void add_experts(const std::string& prefix, bool gated) {
    const bool quantized = recipe_ != RecipeKind::none;
    const std::uint64_t count = pick({1, 2, 3});
    const std::uint64_t inner = width(quantized, !trtllm() ? 32 : gated ? 64 : 128);
    std::vector<std::string> w13, w2;
    for (std::uint64_t e = 0; e < count; ++e) {
      const std::string expert = prefix + ".experts." + std::to_string(e);
      const int index = static_cast<int>(e);
      if (gated) {
        add(expert + ".gate_proj.weight", {inner, hidden_}, Kind::expert_gate, index);
        w13.push_back(expert + ".gate_proj.weight");
      }
      add(expert + ".up_proj.weight", {inner, hidden_}, Kind::expert_up, index);
      w13.push_back(expert + ".up_proj.weight");
      add(expert + ".down_proj.weight", {hidden_, inner}, Kind::expert_down, index);
      w2.push_back(expert + ".down_proj.weight");
    }
    expect_stacked(prefix, w13, w2, count, gated);
    copy(prefix + ".gate.weight", {count, hidden_}, Kind::router);
    copy(prefix + ".gate.e_score_correction_bias", {count}, Kind::router_bias, DType::f32);
  }

  void add_slabs(const std::string& prefix) {
    const std::uint64_t count = pick({1, 2, 3});
    const std::uint64_t inner = width(recipe_ != RecipeKind::none, trtllm() ? 64 : 32);
    add(prefix + ".experts.gate_up_proj", {count, 2 * inner, hidden_}, Kind::expert_gate_up_slab);
    add(prefix + ".experts.down_proj", {count, hidden_, inner}, Kind::expert_down_slab);
    expect_stacked(prefix, {prefix + ".experts.gate_up_proj"}, {prefix + ".experts.down_proj"}, count, true);
  }

  void expect_stacked(const std::string& prefix, std::vector<std::string> w13, std::vector<std::string> w2,
                      std::uint64_t count, bool gated) {
    const bool quantized = recipe_ != RecipeKind::none;
    made_.parameters.push_back({.name = prefix + ".experts.w13_weight",
                                .parts = std::move(w13),
                                .form = Form::w13,
                                .matrices = count,
                                .quantized = quantized,
                                .gated = gated});
    made_.parameters.push_back({.name = prefix + ".experts.w2_weight",
                                .parts = std::move(w2),
                                .form = Form::w2,
                                .matrices = count,
                                .quantized = quantized});
  }

  std::mt19937_64& random_;
  RecipeKind recipe_;
  MoeLayout layout_;
  std::uint64_t hidden_ = 0;
  Model made_;
};

// --- wires ----

/// A plan that copies tensors of these names and shapes.
Plan copy_plan(const std::vector<TensorSpec>& specs) {
  std::vector<model::Tensor> tensors;
  for (const TensorSpec& spec : specs)
    tensors.push_back(tensor(spec.name, spec.shape, Kind::norm, spec.dtype));
  return build(request_of(std::move(tensors), RecipeKind::none));
}

std::vector<std::string> names_of(const Wire& wire) {
  std::vector<std::string> names;
  for (const WireEntry& entry : wire.entries) names.push_back(entry.name);
  return names;
}

std::vector<std::uint64_t> used_bytes_of(const Wire& wire) {
  std::vector<std::uint64_t> used;
  for (const Bucket& bucket : wire.buckets) used.push_back(bucket.used_bytes);
  return used;
}

/// Buckets tile the entries, offsets are aligned and apart, nothing ends beyond the limit.
void check_buckets(const Wire& wire, std::uint64_t limit) {
  REQUIRE(wire.offsets.size() == wire.entries.size());
  std::uint32_t next = 0;
  std::uint64_t bytes = 0, largest = 0;
  for (const Bucket& bucket : wire.buckets) {
    REQUIRE(bucket.first_entry == next);
    REQUIRE(bucket.entries > 0);
    std::uint64_t end = 0;
    for (; next < bucket.first_entry + bucket.entries; ++next) {
      CAPTURE(wire.entries[next].name);
      REQUIRE(wire.offsets[next] % kWireAlignment == 0);
      REQUIRE(wire.offsets[next] >= end);
      REQUIRE(wire.offsets[next] < end + kWireAlignment);
      const TensorSpec sent = {"", wire.entries[next].shape, wire.entries[next].dtype};
      REQUIRE(wire.entries[next].bytes == sent.bytes());
      end = wire.offsets[next] + wire.entries[next].bytes;
      bytes += wire.entries[next].bytes;
    }
    CHECK(bucket.used_bytes == end);
    largest = std::max(largest, end);
  }
  CHECK(next == wire.entries.size());
  CHECK(wire.bytes == bytes);
  CHECK(wire.largest_bucket == largest);
  CHECK(largest <= limit);
}

constexpr std::uint64_t no_limit = std::uint64_t{1} << 62;

/// Reads bucket `bucket` of `wire` as its own sender would have written it.
void read_own(KeyReader& reader, const Wire& wire, std::size_t bucket, Metadata metadata) {
  const Bucket& read =
      reader.read(encode_bucket(wire, bucket, metadata), wire.buckets[bucket].used_bytes, metadata);
  CHECK(&read == &wire.buckets[bucket]);
}

}  // namespace

// --- switches ----

TEST_CASE("Default switches are the control arm of the published scenarios") {
  const std::vector<std::pair<std::string, std::string>> expected = {{"pipeline", "staged"},
                                                                     {"prequantize", "off"},
                                                                     {"quantize", "per-tensor"},
                                                                     {"metadata", "key-list"},
                                                                     {"handle_encoding", "arguments-only"},
                                                                     {"handles", "per-bucket"},
                                                                     {"ipc_buffers", "per-refit"},
                                                                     {"buffer_size", "4294967296"},
                                                                     {"double_buffer", "on"},
                                                                     {"loader", "lookup"},
                                                                     {"shuffle", "per-expert"},
                                                                     {"offload", "full"},
                                                                     {"reference_swap", "pageable"},
                                                                     {"router_bias", "fp32"},
                                                                     {"commit", "in-place"},
                                                                     {"rounding", "flashinfer"},
                                                                     {"zero_scale", "one"},
                                                                     {"non_finite", "refuse"}};
  CHECK(to_pairs(Switches{}) == expected);
}

TEST_CASE("The published treatment differs from the control in the six switches of PR 3294 and PR 3478") {
  const auto control = to_pairs(Switches{}), treatment = to_pairs(published_treatment());
  std::vector<std::pair<std::string, std::string>> changed;
  for (std::size_t i = 0; i < control.size(); ++i) {
    if (control[i] != treatment[i]) changed.push_back(treatment[i]);
  }
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"prequantize", "on"},  {"ipc_buffers", "persistent"}, {"loader", "cached"},
      {"shuffle", "batched"}, {"offload", "slim"},           {"reference_swap", "pinned"}};
  CHECK(changed == expected);
}

TEST_CASE("Every value of every switch is set by name and read back") {
  const std::map<std::string, std::vector<std::string>> values = {
      {"pipeline", {"staged", "direct"}},
      {"prequantize", {"on", "off"}},
      {"quantize", {"per-tensor", "batched", "per-bucket"}},
      {"metadata", {"offset-map", "key-list"}},
      {"handle_encoding", {"with-function", "arguments-only"}},
      {"handles", {"per-tensor", "per-bucket"}},
      {"ipc_buffers", {"per-refit", "persistent"}},
      {"buffer_size", {"4096", "67108864"}},
      {"double_buffer", {"on", "off"}},
      {"loader", {"lookup", "cached"}},
      {"shuffle", {"per-expert", "batched", "fused"}},
      {"offload", {"full", "slim"}},
      {"reference_swap", {"pageable", "pinned"}},
      {"router_bias", {"fp32", "bf16"}},
      {"commit", {"in-place", "shadow"}},
      {"rounding",
       {"flashinfer", "flashinfer-cuda", "torchao-rceil", "torchao-floor", "torchao-even", "torchao-ceil",
        "vllm-floor"}},
      {"zero_scale", {"keep", "one"}},
      {"non_finite", {"refuse", "as-producer"}}};
  CHECK(values.size() == to_pairs(Switches{}).size());
  for (const auto& [name, legal] : values) {
    for (const std::string& value : legal) {
      CAPTURE(name, value);
      Switches switches;
      set_switch(switches, name, value);
      auto expected = to_pairs(Switches{});
      for (auto& pair : expected) {
        if (pair.first == name) pair.second = value;
      }
      CHECK(to_pairs(switches) == expected);
    }
  }
}

TEST_CASE("A wrong switch is answered with the values it takes, or with the nearest name") {
  Switches switches;
  check_refused([&] { set_switch(switches, "pipeline", "stagde"); },
                {"pipeline", "staged or direct", "stagde"});
  check_refused([&] { set_switch(switches, "prequantize", "true"); }, {"prequantize", "on or off", "true"});
  check_refused([&] { set_switch(switches, "rounding", "nearest"); },
                {"rounding", "torchao-even, torchao-ceil"});
  check_refused([&] { set_switch(switches, "prequantise", "on"); }, {"prequantise", "prequantize"});
  check_refused([&] { set_switch(switches, "buffersize", "1GiB"); }, {"buffersize", "buffer_size"});
  check_refused([&] { set_switch(switches, "", "on"); }, {"no switch \"\""});
  CHECK(switches == Switches{});
}

TEST_CASE("A buffer size is a byte count of at least 4096, and anything else is refused with its value") {
  Switches switches;
  set_switch(switches, "buffer_size", "64MiB");
  CHECK(switches.buffer_size == 67'108'864);
  for (const std::string value : {"0", "-1", "abc", "1e30", "1", "4095", ""}) {
    check_refused([&] { set_switch(switches, "buffer_size", value); }, {"buffer_size", "\"" + value + "\""});
  }
  CHECK(switches.buffer_size == 67'108'864);
}

TEST_CASE("Half of the buffer is a bucket when it is double-buffered") {
  Switches switches;
  set_switches(switches, "buffer_size=8192,double_buffer=on");
  CHECK(switches.bucket_bytes() == 4096);
  set_switches(switches, "double_buffer=off");
  CHECK(switches.bucket_bytes() == 8192);
}

TEST_CASE("A list of switches is set as a whole or not at all") {
  Switches switches;
  set_switches(switches, "");
  CHECK(switches == Switches{});
  set_switches(switches, "pipeline=direct,prequantize=on");
  CHECK(switches.pipeline == Pipeline::direct);
  CHECK(switches.prequantize);
  const Switches before = switches;
  check_refused([&] { set_switches(switches, "offload=slim,shuffle"); }, {"shuffle", "equals sign"});
  check_refused([&] { set_switches(switches, "offload=slim,"); }, {"equals sign"});
  check_refused([&] { set_switches(switches, "offload=slim,loader=fast"); }, {"lookup or cached", "fast"});
  check_refused([&] { set_switches(switches, "offload=slim,offload=full"); }, {"offload", "twice"});
  CHECK(switches == before);
}

TEST_CASE("The direct pipeline needs prequantize=on and says which switches it does not look at") {
  Switches switches;
  check_compatible(switches);
  CHECK(inapplicable(switches).empty());
  switches.pipeline = Pipeline::direct;
  check_refused([&] { check_compatible(switches); },
                {"pipeline=direct", "prequantize=off", "set prequantize=on"});
  switches.prequantize = true;
  check_compatible(switches);
  const std::vector<std::string> expected = {"quantize",      "metadata",    "handle_encoding",
                                             "handles",       "ipc_buffers", "buffer_size",
                                             "double_buffer", "loader",      "shuffle"};
  CHECK(inapplicable(switches) == expected);
}

// --- plans: coverage and contents ----

TEST_CASE("Segments write every destination byte once and what the per-expert reference says") {
  const int seed = GENERATE(range(0, 48));
  const auto recipe = std::array{RecipeKind::routed_experts, RecipeKind::mlp, RecipeKind::all_linear,
                                 RecipeKind::none}[static_cast<std::size_t>(seed % 4)];
  const auto layout = seed / 4 % 2 == 0 ? MoeLayout::flashinfer_trtllm : MoeLayout::checkpoint;
  CAPTURE(seed);
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  RandomModel generator(random, recipe, layout);
  const Model made = generator.take();
  Request request = request_of(made.tensors, recipe, layout, generator.hidden());
  request.quant = {.rounding = quant::kRoundings[random() % quant::kRoundings.size()],
                   .zero_scale = random() % 2 == 0 ? quant::ZeroScale::keep : quant::ZeroScale::one};
  const Plan plan = build(request);

  const Bytes sources = random_sources(plan, random);
  const Execution done = Executor(plan, sources, poison).run();
  check_coverage(plan, done);
  std::size_t scales = 0;
  for (const Expected& expected : made.parameters) {
    check_parameter(plan, sources, done, expected);
    scales += expected.quantized ? 1 : 0;
  }
  CHECK(plan.destinations.size() == made.parameters.size() + scales);
}

TEST_CASE("Segments follow the order of the sources, whole sources are read once, zero segments come last") {
  std::mt19937_64 random(7);
  RandomModel generator(random, RecipeKind::all_linear, MoeLayout::checkpoint);
  const Plan plan = build(request_of(generator.take().tensors, RecipeKind::all_linear, MoeLayout::checkpoint,
                                     generator.hidden()));
  std::uint32_t source = 0;
  std::uint64_t row = 0;
  bool zeros = false;
  for (const Segment& each : plan.segments) {
    if (each.op == Op::zero) {
      zeros = true;
      CHECK(each.source == kNone);
      CHECK(each.wire_name.empty());
      continue;
    }
    REQUIRE_FALSE(zeros);
    if (each.source != source) {
      REQUIRE(row == plan.sources[source].spec.rows());
      REQUIRE(each.source == ++source);
      row = 0;
    }
    REQUIRE(each.source_row == row);
    REQUIRE(each.cols == plan.sources[source].spec.cols());
    row += each.rows;
  }
  CHECK(source + 1 == plan.sources.size());
  CHECK(zeros);
}

TEST_CASE("Fused qkv holds q above k above v, whatever the order in the model") {
  const std::string prefix = "model.layers.0.self_attn.";
  const std::vector<model::Tensor> parts = {tensor(prefix + "v_proj.weight", {512, 64}, Kind::attention_v),
                                            tensor(prefix + "q_proj.weight", {4096, 64}, Kind::attention_q),
                                            tensor(prefix + "k_proj.weight", {512, 64}, Kind::attention_k)};
  const Plan plan = build(request_of(parts, RecipeKind::none));
  Bytes sources(plan.source_arena_bytes);
  const std::array<std::uint16_t, 3> first = {20000, 0, 10000};
  for (std::size_t t = 0; t < 3; ++t) {
    for (std::uint64_t i = 0; i < parts[t].spec.rows() * 64; ++i) {
      const auto value = static_cast<std::uint16_t>(first[t] + i / 64);
      std::memcpy(sources.data() + plan.sources[t].offset + 2 * i, &value, 2);
    }
  }
  const Execution done = Executor(plan, sources, poison).run();
  CHECK(destination(plan, prefix + "qkv_proj.weight").spec.shape == Shape{5120, 64});
  const Bytes fused = parameter_bytes(plan, done, prefix + "qkv_proj.weight");
  for (std::size_t row = 0; row < 5120; ++row) {
    std::uint16_t value = 0;
    std::memcpy(&value, fused.data() + row * 128 + 126, 2);
    const std::size_t expected = row < 4096 ? row : row < 4608 ? 10000 + row - 4096 : 20000 + row - 4608;
    REQUIRE(value == expected);
  }
}

TEST_CASE("Fused parameters that lack a part stay apart under their own names") {
  const Plan plan = build(request_of(
      {tensor("model.layers.0.self_attn.q_proj.weight", {64, 32}, Kind::attention_q),
       tensor("model.layers.0.self_attn.kv_b_proj.weight", {64, 32}, Kind::attention_other),
       tensor("backbone.layers.1.mixer.shared_experts.up_proj.weight", {64, 32}, Kind::shared_up),
       tensor("backbone.layers.1.mixer.shared_experts.down_proj.weight", {32, 64}, Kind::shared_down)},
      RecipeKind::none));
  REQUIRE(plan.destinations.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(plan.destinations[i].spec == plan.sources[i].spec);
}

TEST_CASE("Experts are counted layer by layer") {
  std::vector<model::Tensor> tensors = experts("model.layers.0.mlp", 128, 128, 64, true);
  const auto second = experts("model.layers.1.mlp", 104, 128, 64, true);
  tensors.insert(tensors.end(), second.begin(), second.end());
  const Plan plan = build(request_of(tensors, RecipeKind::routed_experts));
  CHECK(destination(plan, "model.layers.0.mlp.experts.w13_weight").spec.shape == Shape{128, 128, 128});
  CHECK(destination(plan, "model.layers.1.mlp.experts.w13_weight").spec.shape == Shape{104, 128, 128});
  CHECK(destination(plan, "model.layers.1.mlp.experts.w2_weight_scale").spec.shape == Shape{104, 512});
  CHECK(plan.row_maps.size() == 2);  // one for w13, one for w2, shared by the layers
}

TEST_CASE("Mixtral's w1, w3 and w2 are stacked as gate, up and down") {
  const std::string expert = "model.layers.0.block_sparse_moe.experts.0.";
  const Plan plan =
      build(request_of({tensor(expert + "w1.weight", {64, 128}, Kind::expert_gate, DType::bf16, 0),
                        tensor(expert + "w2.weight", {128, 64}, Kind::expert_down, DType::bf16, 0),
                        tensor(expert + "w3.weight", {64, 128}, Kind::expert_up, DType::bf16, 0)},
                       RecipeKind::routed_experts));
  CHECK(destination(plan, "model.layers.0.block_sparse_moe.experts.w13_weight").gated);
  CHECK(segment(plan, expert + "w1.weight").row_begin == 0);
  CHECK(segment(plan, expert + "w3.weight").row_begin == 64);
  CHECK(destination(plan, "model.layers.0.block_sparse_moe.experts.w2_weight").spec.shape ==
        Shape{1, 128, 64});
}

TEST_CASE("An FP32 router bias stays FP32 bit for bit unless it is asked through BF16") {
  std::vector<model::Tensor> tensors = {
      tensor("model.layers.3.mlp.gate.e_score_correction_bias", {8}, Kind::router_bias, DType::f32),
      tensor("model.layers.3.mlp.gate.weight", {8, 32}, Kind::router),
      tensor("model.layers.4.mlp.router.bias", {8}, Kind::router_bias)};
  const bool rounded = GENERATE(false, true);
  Request request = request_of(tensors, RecipeKind::all_linear);
  request.router_bias_bf16 = rounded;
  const Plan plan = build(request);
  CHECK(plan.segments[0].op == (rounded ? Op::round_bf16 : Op::copy));
  CHECK(plan.segments[1].op == Op::copy);
  CHECK(plan.segments[2].op == Op::copy);  // BF16 already
  CHECK(plan.destinations[0].spec.dtype == DType::f32);

  std::array<float, 8> bias;
  for (std::size_t i = 0; i < 8; ++i) bias[i] = 3.0f + static_cast<float>(i) * 0.0007f;
  Bytes sources(plan.source_arena_bytes);
  std::memcpy(sources.data() + plan.sources[0].offset, bias.data(), sizeof bias);
  const Execution done = Executor(plan, sources, poison).run();
  std::array<float, 8> arrived;
  std::memcpy(arrived.data(), done.bytes.data() + plan.destinations[0].offset, sizeof arrived);
  if (rounded) bias.fill(3.0f);
  CHECK(arrived == bias);

  const Wire wire = make_wire(plan, true, no_limit);
  CHECK(wire.entries[0].dtype == DType::f32);
  CHECK(wire.entries[0].bytes == 32);
  CHECK(nlohmann::json::parse(encode_manifest(plan, wire))["tensors"][0]["dtype"] == "F32");
}

TEST_CASE("MTP tensors are not part of the plan") {
  Request request = request_of({tensor("model.norm.weight", {32}, Kind::norm)}, RecipeKind::none);
  request.model.mtp = {tensor("mtp.norm.weight", {32}, Kind::norm)};
  const Plan plan = build(request);
  CHECK(plan.sources.size() == 1);
  CHECK(plan.destinations.size() == 1);
  CHECK(plan.source_bytes == 64);
  CHECK(plan.source_arena_bytes == 256 + 256 + 256);
}

TEST_CASE("Zero-sized tensors and scalars have their place, and an empty model makes an empty plan") {
  const Plan plan = copy_plan({{"none", {0}}, {"no rows", {0, 64}}, {"no columns", {3, 0}}, {"scalar", {}}});
  CHECK(plan.destination_bytes == 2);
  check_coverage(plan, Executor(plan, Bytes(plan.source_arena_bytes), poison).run());
  const Wire wire = make_wire(plan, false, 4096);
  check_buckets(wire, 4096);
  CHECK(wire.entries.size() == 4);
  CHECK(wire.entries[2].shape == Shape{3, 0});

  const Plan empty = copy_plan({});
  CHECK(empty.floor_bytes() == 0);
  CHECK(empty.destination_arena_bytes == kArenaAlignment);
  const Wire nothing = make_wire(empty, true, 4096);
  CHECK(nothing.buckets.empty());
  KeyReader(nothing).finish();
  check_manifest(encode_manifest(empty, nothing), empty, nothing);
}

// --- plans: the MoE layout ----

TEST_CASE("Every expert's rows are stored where the per-expert shuffle puts them") {
  // Numbered rows of two bytes go through the reference; widths 768 gated and 1920 non-gated.
  const bool gated = GENERATE(true, false);
  const std::uint64_t width = gated ? 768 : 1920, rows = gated ? 1536 : 1920, hidden = 2688;
  CAPTURE(gated);
  const Plan plan =
      build(request_of(experts("model.layers.0.mlp", 128, hidden, width, gated), RecipeKind::routed_experts));
  const auto numbered = [](std::uint64_t count) {
    Bytes bytes(2 * count);
    for (std::uint64_t r = 0; r < count; ++r) {
      const auto number = static_cast<std::uint16_t>(r);
      std::memcpy(bytes.data() + 2 * r, &number, 2);
    }
    return bytes;
  };
  const Bytes w13 =
      layout::shuffle_w13_expert_reference(numbered(rows), Bytes(rows), rows, 2, 1, gated).weight;
  const Bytes w2 = layout::shuffle_w2_expert_reference(numbered(hidden), Bytes(hidden), hidden, 2, 1).weight;
  std::uint64_t checked = 0;
  for (const Segment& each : plan.segments) {
    const bool down = plan.sources[each.source].kind == Kind::expert_down;
    for (std::uint64_t r = 0; r < each.rows; ++r, ++checked) {
      std::uint16_t canonical = 0;
      std::memcpy(&canonical, (down ? w2 : w13).data() + 2 * stored_row(plan, each, r), 2);
      REQUIRE(canonical == each.row_begin + r);
    }
  }
  CHECK(checked == 128 * (rows + hidden));
}

TEST_CASE(
    "A width that does not tile by 128 is refused for the TRT-LLM layout and taken in checkpoint order") {
  const auto tensors = experts("backbone.layers.1.mixer", 2, 2688, 1856, false);
  check_refused([&] { return build(request_of(tensors, RecipeKind::routed_experts)); },
                {"backbone.layers.1.mixer.experts.0.up_proj.weight [1856, 2688]", "1856 rows",
                 "multiple of 128", "flashinfer-trtllm", "layout checkpoint"});
  const Plan plan = build(request_of(tensors, RecipeKind::routed_experts, MoeLayout::checkpoint));
  const Destination& scale = destination(plan, "backbone.layers.1.mixer.experts.w13_weight_scale");
  CHECK(scale.spec.shape == Shape{2, 1856, 84});
  CHECK(scale.row_map == kNone);
  CHECK(plan.row_maps.empty());
  // Without quantization nothing is shuffled, so nothing has to tile.
  CHECK(
      destination(build(request_of(tensors, RecipeKind::none)), "backbone.layers.1.mixer.experts.w13_weight")
          .spec.dtype == DType::bf16);
  // 128 rows of w13 but 96 rows of w2.
  check_refused(
      [&] { return build(request_of(experts("m.mlp", 1, 96, 64, true), RecipeKind::routed_experts)); },
      {"m.mlp.experts.0.down_proj.weight", "w2_weight has 96 rows"});
}

TEST_CASE("Width 192 is fine for MXFP8 in the TRT-LLM layout") {
  const Plan plan =
      build(request_of(experts("model.layers.0.mlp", 2, 2048, 192, true), RecipeKind::routed_experts));
  CHECK(destination(plan, "model.layers.0.mlp.experts.w13_weight_scale").spec.shape == Shape{2, 384 * 64});
  // Six scale columns, padded to eight.
  CHECK(destination(plan, "model.layers.0.mlp.experts.w2_weight_scale").spec.shape == Shape{2, 2048 * 8});
}

TEST_CASE("Offsets above 2^32 elements reach the last expert") {
  const Plan plan =
      build(request_of(experts("model.layers.3.mlp", 256, 7168, 2048, true), RecipeKind::routed_experts));
  const Destination& w13 = destination(plan, "model.layers.3.mlp.experts.w13_weight");
  CHECK(w13.spec.shape == Shape{256, 4096, 7168});
  CHECK(num_elements(w13.spec.shape) == 7'516'192'768);
  CHECK(w13.matrix_bytes == 29'360'128);
  const Segment& last = segment(plan, "model.layers.3.mlp.experts.255.up_proj.weight");
  CHECK(last.matrix == 255);
  CHECK(last.row_begin == 2048);
  const std::uint64_t row = stored_row(plan, last, 2047);
  CHECK(row < 4096);
  CHECK(w13.offset + last.matrix * w13.matrix_bytes + (row + 1) * 7168 <= w13.offset + 7'516'192'768);
  const Destination& w2 = destination(plan, "model.layers.3.mlp.experts.w2_weight");
  CHECK(destination(plan, "model.layers.3.mlp.experts.w13_weight_scale").offset >=
        w13.offset + 7'516'192'768);
  CHECK(w2.matrix_bytes * 255 == 3'743'416'320);
  CHECK(plan.source_bytes == 2 * (7'516'192'768 + 3'758'096'384));
  CHECK(plan.destination_bytes == (7'516'192'768 + 3'758'096'384) / 32 * 33);
}

TEST_CASE("Slabs of all experts travel expert by expert and land in the stacked parameters") {
  const Plan plan = build(
      request_of({tensor("model.layers.0.mlp.experts.gate_up_proj", {3, 128, 128}, Kind::expert_gate_up_slab),
                  tensor("model.layers.0.mlp.experts.down_proj", {3, 128, 64}, Kind::expert_down_slab)},
                 RecipeKind::routed_experts, MoeLayout::flashinfer_trtllm, 128));
  const std::vector<std::string> expected = {
      "model.layers.0.mlp.experts.0.gate_up_proj.weight", "model.layers.0.mlp.experts.1.gate_up_proj.weight",
      "model.layers.0.mlp.experts.2.gate_up_proj.weight", "model.layers.0.mlp.experts.0.down_proj.weight",
      "model.layers.0.mlp.experts.1.down_proj.weight",    "model.layers.0.mlp.experts.2.down_proj.weight"};
  const Wire wire = make_wire(plan, false, no_limit);
  CHECK(names_of(wire) == expected);
  CHECK(wire.entries[2].shape == Shape{128, 128});
  CHECK(plan.segments[2].source_row == 256);
  CHECK(plan.segments[2].matrix == 2);
  CHECK(destination(plan, "model.layers.0.mlp.experts.w13_weight").gated);
}

TEST_CASE("Slabs with K in the middle are refused when they would be quantized and copied when not") {
  std::vector<model::Tensor> tensors = {
      tensor("model.layers.0.mlp.experts.gate_up_proj", {4, 64, 128}, Kind::expert_gate_up_slab),
      tensor("model.layers.0.mlp.experts.down_proj", {4, 64, 64}, Kind::expert_down_slab)};
  check_refused(
      [&] { return build(request_of(tensors, RecipeKind::routed_experts, MoeLayout::checkpoint, 64)); },
      {"model.layers.0.mlp.experts.gate_up_proj [4, 64, 128]", "K in the middle"});
  const Plan plan = build(request_of(tensors, RecipeKind::none, MoeLayout::checkpoint, 64));
  REQUIRE(plan.segments.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(plan.destinations[i].spec == tensors[i].spec);
  // Shapes cannot tell when both sides are equal; the model's type does.
  tensors[0].spec.shape = {4, 64, 64};
  Request square = request_of(tensors, RecipeKind::routed_experts, MoeLayout::checkpoint, 64);
  CHECK(build(square).segments.size() == 8);
  square.model.model_type = "gpt_oss";
  check_refused([&] { return build(square); }, {"gate_up_proj", "K in the middle"});
}

// --- plans: scales ----

TEST_CASE("Scales with distinct exponents land byte for byte where the tiled layout has them") {
  // Block (r, c) has its largest magnitude in exponent (7r + 3c) mod 200, so no two neighbours are alike.
  const std::uint64_t rows = 130, cols = 5;
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  Request request = request_of({tensor(name, {rows, 32 * cols}, Kind::mlp_down)}, RecipeKind::mlp);
  const Plan plan = build(request);
  Bytes sources(plan.source_arena_bytes);
  for (std::uint64_t r = 0; r < rows; ++r) {
    for (std::uint64_t c = 0; c < cols; ++c) {
      const auto bits = static_cast<std::uint16_t>(((7 * r + 3 * c) % 200 + 20) << 7);
      std::memcpy(sources.data() + plan.sources[0].offset + 2 * (r * 32 * cols + 32 * c + 5), &bits, 2);
    }
  }
  const Execution done = Executor(plan, sources, poison).run();
  const Bytes scales = parameter_bytes(plan, done, name + "_scale");
  REQUIRE(scales.size() == 256 * 8);
  // dst(r, c) as section 2 of the layout's description states it; padding is zero.
  Bytes expected(scales.size());
  for (std::uint64_t r = 0; r < rows; ++r) {
    for (std::uint64_t c = 0; c < cols; ++c) {
      const std::uint64_t at =
          (r / 128) * (128 * 8) + (c / 4) * 512 + (r % 32) * 16 + ((r % 128) / 32) * 4 + (c % 4);
      expected[at] = static_cast<std::uint8_t>((7 * r + 3 * c) % 200 + 12);
    }
  }
  CHECK(scales == expected);
}

TEST_CASE("Padding bytes of every scale matrix are written with zeros on every refit") {
  const std::uint64_t rows = GENERATE(1, 31, 32, 33, 127, 128, 129, 130);
  const std::uint64_t cols = GENERATE(1, 3, 4, 5);
  CAPTURE(rows, cols);
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  const Plan plan = build(request_of({tensor(name, {rows, 32 * cols}, Kind::mlp_down)}, RecipeKind::mlp));
  std::mt19937_64 random(rows * 8 + cols);
  const Bytes sources = random_sources(plan, random);
  const Execution done = Executor(plan, sources, poison).run();
  check_coverage(plan, done);
  check_parameter(plan, sources, done, {.name = name, .parts = {name}, .quantized = true});
  const bool padded_rows = rows % 128 != 0;
  CHECK(plan.segments.size() == (padded_rows ? 2u : 1u));
  if (padded_rows) {
    CHECK(plan.segments[1].op == Op::zero);
    CHECK(plan.segments[1].row_begin == rows);
    CHECK(plan.segments[1].rows == layout::padded_scale_rows(rows) - rows);
    CHECK(plan.segments[1].cols == layout::padded_scale_cols(cols));
  }
}

TEST_CASE("Each matrix is padded on its own, three of 130 rows to three of 256 scale rows") {
  std::vector<model::Tensor> tensors;
  for (int i = 0; i < 3; ++i) {
    tensors.push_back(
        tensor("model.layers." + std::to_string(i) + ".mlp.down_proj.weight", {130, 96}, Kind::mlp_down));
  }
  const Plan plan = build(request_of(tensors, RecipeKind::mlp));
  for (int i = 0; i < 3; ++i) {
    CHECK(destination(plan, "model.layers." + std::to_string(i) + ".mlp.down_proj.weight_scale").spec.shape ==
          Shape{256 * 4});
  }
  // The same rows as stacked experts do not tile.
  check_refused(
      [&] { return build(request_of(experts("m.mlp", 3, 128, 130, false), RecipeKind::routed_experts)); },
      {"experts.0.up_proj.weight [130, 128]", "130 rows"});
  check_refused(
      [&] { return build(request_of(experts("m.mlp", 3, 96, 130, true), RecipeKind::routed_experts)); },
      {"260 rows"});
}

// --- plans: refusals ----

TEST_CASE("A weight to be quantized needs K in blocks of 32, two dimensions and BF16") {
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  const auto plan_of = [&](Shape shape, DType dtype = DType::bf16) {
    return build(request_of({tensor(name, std::move(shape), Kind::mlp_down, dtype)}, RecipeKind::mlp));
  };
  check_refused([&] { return plan_of({64, 48}); }, {name, "[64, 48]", "48", "not a multiple of 32"});
  check_refused([&] { return plan_of({64, 31}); }, {"[64, 31]"});
  check_refused([&] { return plan_of({64, 33}); }, {"[64, 33]"});
  check_refused([&] { return plan_of({2, 64, 32}); }, {name, "3 dimensions"});
  check_refused([&] { return plan_of({64, 32}, DType::f32); }, {name, "F32", "only BF16"});
  check_refused([&] { return plan_of({64, 32}, DType::f16); }, {name, "F16", "only BF16"});
  // 16 rows beyond a multiple of 32 are fine, and padded in the scale layout alone.
  const Plan plan = plan_of({7984, 3072});
  CHECK(destination(plan, name).spec.shape == Shape{7984, 3072});
  CHECK(destination(plan, name + "_scale").spec.bytes() == 8064 * 96);
  CHECK(plan.segments.back().rows == 80);
}

TEST_CASE("Parts of a fused parameter must agree in dtype, width and quantization") {
  const std::string prefix = "model.layers.0.self_attn.";
  std::vector<model::Tensor> qkv = {tensor(prefix + "q_proj.weight", {64, 32}, Kind::attention_q),
                                    tensor(prefix + "k_proj.weight", {32, 32}, Kind::attention_k),
                                    tensor(prefix + "v_proj.weight", {32, 32}, Kind::attention_v)};
  SECTION("quantization") {
    Request request = request_of(qkv, RecipeKind::all_linear);
    request.recipe.ignore = {"k_proj"};
    check_refused([&] { return build(request); }, {prefix + "k_proj.weight", "not quantized",
                                                   "q_proj.weight is quantized", prefix + "qkv_proj.weight"});
  }
  SECTION("dtype") {
    qkv[2].spec.dtype = DType::f32;
    check_refused([&] { return build(request_of(qkv, RecipeKind::none)); },
                  {prefix + "v_proj.weight [32, 32] is F32", "q_proj.weight is BF16"});
  }
  SECTION("width") {
    qkv[1].spec.shape = {32, 64};
    check_refused([&] { return build(request_of(qkv, RecipeKind::none)); },
                  {prefix + "k_proj.weight [32, 64]", "[64, 32]"});
  }
  SECTION("one expert of another size") {
    auto tensors = experts("m.mlp", 3, 128, 64, true);
    tensors[4].spec.shape = {32, 128};
    check_refused([&] { return build(request_of(tensors, RecipeKind::none)); },
                  {"m.mlp.experts.1.up_proj.weight [32, 128]", "[64, 128]"});
  }
  SECTION("one expert not quantized") {
    Request request = request_of(experts("m.mlp", 3, 128, 64, true), RecipeKind::routed_experts);
    request.recipe.ignore = {"experts.1.up_proj"};
    check_refused([&] { return build(request); }, {"m.mlp.experts.1.up_proj.weight", "not quantized"});
  }
}

TEST_CASE("A layer with a missing, doubled or nameless expert is refused by name") {
  auto tensors = experts("m.mlp", 3, 128, 64, true);
  const auto plan_of = [&] { return build(request_of(tensors, RecipeKind::none)); };
  SECTION("missing gate") {
    tensors.erase(tensors.begin() + 3);
    check_refused(plan_of, {"m.mlp.experts.w13_weight is incomplete", "expert 1 has no gate"});
  }
  SECTION("missing expert") {
    tensors.erase(tensors.begin() + 3, tensors.begin() + 6);
    check_refused(plan_of, {"m.mlp.experts.w13_weight is incomplete", "expert 1 has no gate"});
  }
  SECTION("missing down") {
    tensors.erase(tensors.begin() + 5);
    check_refused(plan_of, {"m.mlp.experts.w2_weight is incomplete", "expert 1 has no down"});
  }
  SECTION("doubled") {
    tensors[4].expert = 0;
    check_refused(plan_of, {"m.mlp.experts.1.up_proj.weight", "m.mlp.experts.0.up_proj.weight", "both"});
  }
  SECTION("no index") {
    tensors[4].expert = -1;
    check_refused(plan_of, {"m.mlp.experts.1.up_proj.weight", "no expert"});
  }
  SECTION("no experts in the name") {
    tensors[4].spec.name = "m.mlp.up_proj.weight";
    check_refused(plan_of, {"m.mlp.up_proj.weight", "\".experts.\""});
  }
  SECTION("slab beside single experts") {
    tensors.push_back(tensor("m.mlp.experts.gate_up_proj", {3, 128, 128}, Kind::expert_gate_up_slab));
    check_refused([&] { return build(request_of(tensors, RecipeKind::none, MoeLayout::checkpoint, 128)); },
                  {"m.mlp.experts.gate_up_proj", "m.mlp.experts.0.gate_proj.weight"});
  }
}

TEST_CASE("Two sources for one engine parameter are refused") {
  check_refused([] { return copy_plan({{"a", {4}}, {"b", {4}}, {"a", {4}}}); }, {"named a"});
  check_refused(
      [] {
        return build(request_of({tensor("m.mlp.down_proj.weight", {32, 32}, Kind::mlp_down),
                                 tensor("m.mlp.down_proj.weight_scale", {32}, Kind::norm)},
                                RecipeKind::mlp));
      },
      {"m.mlp.down_proj.weight_scale"});
}

TEST_CASE("Sizes beyond 2^62 bytes are refused instead of wrapping") {
  const Shape quarter = {std::uint64_t{1} << 30, std::uint64_t{1} << 29};  // 2^60 bytes
  check_refused(
      [&] {
        return copy_plan({{"a", quarter}, {"b", quarter}, {"c", quarter}, {"d", quarter}});
      },
      {"d [1073741824, 536870912]", "2^62"});
  CHECK(copy_plan({{"a", quarter}, {"b", quarter}, {"c", quarter}}).source_bytes ==
        3 * (std::uint64_t{1} << 60));
}

// --- plans: whole models ----

TEST_CASE("Qwen3-30B-A3B has the engine's parameters and the published number of bytes") {
  Request request;
  request.model = model::load_inventory(config_path("Qwen3-30B-A3B"));
  const Plan plan = build(request);
  CHECK(plan.sources.size() == 18'867);
  CHECK(plan.source_bytes == 61'064'245'248);
  // 11 a layer: qkv, o, two head norms, two norms, router, w13, w2 and their scales.
  CHECK(plan.destinations.size() == 48 * 11 + 3);
  CHECK(plan.segments.size() == 18'867);
  const std::uint64_t experts = 57'982'058'496, others = 61'064'245'248 - experts;
  CHECK(plan.destination_bytes == others + experts / 64 * 33);
  const Destination& w13 = destination(plan, "model.layers.47.mlp.experts.w13_weight");
  CHECK(w13.spec.shape == Shape{128, 1536, 2048});
  CHECK(w13.spec.dtype == DType::f8_e4m3);
  CHECK(destination(plan, "model.layers.47.mlp.experts.w13_weight_scale").spec.shape == Shape{128, 98'304});
  CHECK(destination(plan, "model.layers.47.mlp.experts.w2_weight_scale").spec.shape == Shape{128, 49'152});
  CHECK(destination(plan, "model.layers.0.self_attn.qkv_proj.weight").spec.shape == Shape{5120, 2048});

  const std::uint64_t bucket = std::uint64_t{2} << 30;
  const Wire plain = make_wire(plan, false, bucket);
  CHECK(plain.entries.size() == 18'867);
  CHECK(plain.bytes == 61'064'245'248);
  check_buckets(plain, bucket);
  const Wire prequantized = make_wire(plan, true, bucket);
  CHECK(prequantized.entries.size() == 18'867 + 18'432);
  CHECK(prequantized.bytes == others + experts / 64 * 33);
  check_buckets(prequantized, bucket);
}

TEST_CASE("Nemotron's experts are refused by the TRT-LLM layout and fit in checkpoint order") {
  Request request;
  request.model = model::load_inventory(config_path("Nemotron-3-Nano-30B-A3B"));
  check_refused([&] { return build(request); }, {"up_proj.weight [1856, 2688]", "checkpoint"});
  request.moe_layout = MoeLayout::checkpoint;
  const Plan plan = build(request);
  CHECK(plan.sources.size() == 6243);
  const Destination& w13 = destination(plan, "backbone.layers.1.mixer.experts.w13_weight");
  CHECK(w13.spec.shape == Shape{128, 1856, 2688});
  CHECK_FALSE(w13.gated);
}

TEST_CASE("DeepSeek-V3's embedding travels in pieces when it is larger than the bucket") {
  Request request;
  request.model = model::load_inventory(config_path("DeepSeek-V3"));
  const Plan plan = build(request);
  CHECK(plan.sources.size() == 45'395);
  const Wire wire = make_wire(plan, true, 1'771'261'132);
  check_buckets(wire, 1'771'261'132);
  CHECK(wire.entries[0].name == "model.embed_tokens.weight#rows=0:123553");
  CHECK(wire.entries[1].name == "model.embed_tokens.weight#rows=123553:129280");
  CHECK(wire.entries[0].shape == Shape{123553, 7168});
  CHECK(wire.buckets[0].entries == 1);
}

// --- plans: digest ----

TEST_CASE("The same request gives the same plan, and any change another digest") {
  auto tensors = experts("model.layers.0.mlp", 2, 128, 64, true);
  tensors.push_back(
      tensor("model.layers.0.mlp.gate.e_score_correction_bias", {2}, Kind::router_bias, DType::f32));
  const Request request = request_of(tensors, RecipeKind::routed_experts);
  const std::uint64_t digest = build(request).digest;
  CHECK(build(request).digest == digest);
  std::vector<Request> changed(7, request);
  changed[0].moe_layout = MoeLayout::checkpoint;
  changed[1].recipe.kind = RecipeKind::none;
  changed[2].quant.rounding = quant::Rounding::vllm_floor;
  changed[3].quant.zero_scale = quant::ZeroScale::one;
  changed[4].router_bias_bf16 = true;
  changed[5].model.tensors.pop_back();
  std::swap(changed[6].model.tensors[0], changed[6].model.tensors[1]);
  for (std::size_t i = 0; i < changed.size(); ++i) {
    CAPTURE(i);
    CHECK(build(changed[i]).digest != digest);
  }
}

TEST_CASE("The digest covers every field of a plan and of a wire") {
  const Plan plan =
      build(request_of(experts("model.layers.0.mlp", 2, 128, 64, true), RecipeKind::routed_experts));
  CHECK(digest_of(plan) == plan.digest);
  const std::vector<std::function<void(Plan&)>> changes = {
      [](Plan& p) { p.sources[1].spec.name += 'x'; },
      [](Plan& p) { p.sources[1].spec.shape[0] += 1; },
      [](Plan& p) { p.sources[1].spec.dtype = DType::f16; },
      [](Plan& p) { p.sources[1].offset += 1; },
      [](Plan& p) { p.sources[1].kind = Kind::norm; },
      [](Plan& p) { p.sources[1].layer += 1; },
      [](Plan& p) { p.destinations[0].spec.name += 'x'; },
      [](Plan& p) { p.destinations[0].offset += 1; },
      [](Plan& p) { p.destinations[0].matrices += 1; },
      [](Plan& p) { p.destinations[0].matrix_rows += 1; },
      [](Plan& p) { p.destinations[0].matrix_bytes += 1; },
      [](Plan& p) { p.destinations[0].row_map = 1; },
      [](Plan& p) { p.destinations[0].gated = false; },
      [](Plan& p) { p.destinations[1].scale_layout = ScaleLayout::row_major; },
      [](Plan& p) { p.destinations[1].scale_of += 1; },
      [](Plan& p) { p.destinations[0].scale += 1; },
      [](Plan& p) { p.destinations[0].layer += 1; },
      [](Plan& p) { p.segments[1].op = Op::copy; },
      [](Plan& p) { p.segments[1].source += 1; },
      [](Plan& p) { p.segments[1].source_row += 1; },
      [](Plan& p) { p.segments[1].rows += 1; },
      [](Plan& p) { p.segments[1].cols += 1; },
      [](Plan& p) { p.segments[1].destination += 1; },
      [](Plan& p) { p.segments[1].matrix += 1; },
      [](Plan& p) { p.segments[1].row_begin += 1; },
      [](Plan& p) { p.segments[1].wire_name += 'x'; },
      [](Plan& p) { std::swap(p.segments[0], p.segments[1]); },
      [](Plan& p) { std::swap(p.row_maps[0][0], p.row_maps[0][1]); },
      [](Plan& p) { p.quant.rounding = quant::Rounding::torchao_even; },
      [](Plan& p) { p.quant.zero_scale = quant::ZeroScale::one; },
      [](Plan& p) { p.moe_layout = MoeLayout::checkpoint; },
      [](Plan& p) { p.source_arena_bytes += 1; },
      [](Plan& p) { p.destination_arena_bytes += 1; },
      [](Plan& p) { p.source_bytes += 1; },
      [](Plan& p) { p.destination_bytes += 1; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    Plan changed = plan;
    changes[i](changed);
    CHECK(digest_of(changed) != plan.digest);
  }
  const Wire wire = make_wire(plan, true, 65536);
  const std::vector<std::function<void(Wire&)>> wire_changes = {
      [](Wire& w) { w.entries[1].name += 'x'; },   [](Wire& w) { w.entries[1].dtype = DType::i8; },
      [](Wire& w) { w.entries[1].shape[0] += 1; }, [](Wire& w) { w.entries[1].bytes += 1; },
      [](Wire& w) { w.entries[1].segment += 1; },  [](Wire& w) { w.entries[1].row_begin += 1; },
      [](Wire& w) { w.entries[1].rows += 1; },     [](Wire& w) { w.entries[1].scale = false; },
      [](Wire& w) { w.offsets[1] += 512; },        [](Wire& w) { w.buckets[0].first_entry += 1; },
      [](Wire& w) { w.buckets[0].entries += 1; },  [](Wire& w) { w.buckets[0].used_bytes += 1; },
      [](Wire& w) { w.prequantized = false; },     [](Wire& w) { w.bytes += 1; },
      [](Wire& w) { w.largest_bucket += 1; }};
  for (std::size_t i = 0; i < wire_changes.size(); ++i) {
    CAPTURE(i);
    Wire changed = wire;
    wire_changes[i](changed);
    CHECK(digest_of(changed) != digest_of(wire));
  }
}

TEST_CASE("MoE layouts have names") {
  for (const MoeLayout layout : {MoeLayout::flashinfer_trtllm, MoeLayout::checkpoint}) {
    CHECK(parse_moe_layout(name_of(layout)) == layout);
  }
  CHECK(name_of(MoeLayout::flashinfer_trtllm) == "flashinfer-trtllm");
  CHECK_FALSE(parse_moe_layout("trtllm"));
}

// --- wire: buckets ----

TEST_CASE("A tensor above the bucket size flushes what is pending and travels in pieces of whole rows") {
  const Plan plan = copy_plan({{"a", {5, 1024}}, {"b", {50, 1024}}, {"c", {5, 1024}}});  // 10, 100, 10 KiB
  const Wire wire = make_wire(plan, false, 65536);
  CHECK(names_of(wire) == std::vector<std::string>{"a", "b#rows=0:32", "b#rows=32:50", "c"});
  CHECK(used_bytes_of(wire) == std::vector<std::uint64_t>{10'240, 65'536, 36'864 + 10'240});
  CHECK(wire.entries[2].row_begin == 32);
  CHECK(wire.entries[2].rows == 18);
  CHECK(wire.entries[2].shape == Shape{18, 1024});
  check_buckets(wire, 65536);
}

TEST_CASE("A first tensor above the bucket size leaves no empty bucket") {
  const Plan plan = copy_plan({{"a", {33, 1024}}, {"b", {1}}});
  const Wire wire = make_wire(plan, false, 65536);
  check_buckets(wire, 65536);
  CHECK(names_of(wire) == std::vector<std::string>{"a#rows=0:32", "a#rows=32:33", "b"});
  CHECK(wire.buckets.size() == 2);
}

TEST_CASE("The last tensor of a bucket counts before it is added") {
  const Plan plan = copy_plan({{"a", {500'000}}, {"b", {500'000}}, {"c", {24}}});
  const Wire wire = make_wire(plan, false, 1 << 20);
  CHECK(used_bytes_of(wire) == std::vector<std::uint64_t>{1'000'000, 1'000'448 + 48});
  check_buckets(wire, 1 << 20);
}

TEST_CASE("Alignment decides whether a tensor still fits") {
  const std::vector<TensorSpec> specs = {{"a", {100}, DType::u8}, {"b", {512}, DType::u8}};
  CHECK(used_bytes_of(make_wire(copy_plan(specs), false, 1024)) == std::vector<std::uint64_t>{1024});
  CHECK(used_bytes_of(make_wire(copy_plan(specs), false, 1023)) == std::vector<std::uint64_t>{100, 512});
  CHECK(used_bytes_of(make_wire(copy_plan({{"a", {513}, DType::u8}, {"b", {512}, DType::u8}}), false,
                                1024)) == std::vector<std::uint64_t>{513, 512});
  // Exactly one bucket, and one byte less.
  CHECK(make_wire(copy_plan({{"a", {512}, DType::u8}}), false, 512).entries.size() == 1);
  CHECK(names_of(make_wire(copy_plan({{"a", {512}, DType::u8}}), false, 511)) ==
        std::vector<std::string>{"a#rows=0:511", "a#rows=511:512"});
}

TEST_CASE("Vectors split by elements, and a row above the bucket size is refused with the numbers") {
  const Wire wire = make_wire(copy_plan({{"v", {5}, DType::f32}}), false, 8);
  CHECK(names_of(wire) == std::vector<std::string>{"v#rows=0:2", "v#rows=2:4", "v#rows=4:5"});
  CHECK(wire.entries[2].shape == Shape{1});
  check_refused(
      [] {
        return make_wire(copy_plan({{"m", {2, 1024}}}), false, 2047);
      },
      {"tensor m", "2048 bytes", "2047 bytes"});
}

TEST_CASE("Every tensor is packed with its own type on a boundary of 512 bytes") {
  const Plan plan = copy_plan({{"a", {3}, DType::bf16},
                               {"b", {5}, DType::f32},
                               {"c", {3}, DType::u8},
                               {"d", {2, 2}, DType::bf16},
                               {"e", {}, DType::f32},
                               {"f", {7}, DType::bf16},
                               {"g", {7}, DType::f32},
                               {"h", {7}, DType::u8},
                               {"i", {1}, DType::f32},
                               {"j", {1}, DType::bf16}});
  const Wire wire = make_wire(plan, false, 8192);
  const std::array<std::uint64_t, 10> bytes = {6, 20, 3, 8, 4, 14, 28, 7, 4, 2};
  for (std::size_t i = 0; i < 10; ++i) {
    CAPTURE(i);
    CHECK(wire.offsets[i] == 512 * i);
    CHECK(wire.entries[i].bytes == bytes[i]);
    CHECK(wire.entries[i].shape == plan.sources[i].spec.shape);
    CHECK(wire.entries[i].dtype == plan.sources[i].spec.dtype);
  }
  CHECK(wire.largest_bucket == 9 * 512 + 2);
}

TEST_CASE("Prequantized weights travel as values and scales of the same rows") {
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  const Plan plan = build(request_of({tensor(name, {100, 1024}, Kind::mlp_down)}, RecipeKind::mlp));
  const std::uint64_t limit = GENERATE(65536u, 1024u, 1u << 20);
  CAPTURE(limit);
  const Wire wire = make_wire(plan, true, limit);
  check_buckets(wire, limit);
  CHECK(wire.prequantized);
  CHECK(wire.bytes == 100 * 1024 + 100 * 32);
  std::uint64_t row = 0;
  for (std::size_t i = 0; i < wire.entries.size(); i += 2) {
    const WireEntry &values = wire.entries[i], &scales = wire.entries[i + 1];
    const std::string rows = limit > 100 * 1024 ? ""
                                                : "#rows=" + std::to_string(values.row_begin) + ":" +
                                                      std::to_string(values.row_begin + values.rows);
    CHECK(values.name == name + rows);
    CHECK(scales.name == name + "_scale_from_checkpoint" + rows);
    CHECK(values.dtype == DType::f8_e4m3);
    CHECK(scales.dtype == DType::u8);
    CHECK(scales.shape == Shape{values.rows, 32});
    CHECK((scales.scale && !values.scale));
    CHECK(values.row_begin == row);
    CHECK(scales.row_begin == row);
    row += values.rows;
  }
  CHECK(row == 100);
  const Wire plain = make_wire(plan, false, 1 << 20);
  REQUIRE(plain.entries.size() == 1);
  CHECK(plain.entries[0].dtype == DType::bf16);
  CHECK(plain.entries[0].bytes == 204'800);
}

TEST_CASE("Keys that would collide are refused") {
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  const Plan plan = build(request_of(
      {tensor(name, {32, 32}, Kind::mlp_down), tensor(name + "_scale_from_checkpoint", {4}, Kind::norm)},
      RecipeKind::mlp));
  check_refused([&] { return make_wire(plan, true, 4096); }, {name + "_scale_from_checkpoint"});
  CHECK(make_wire(plan, false, 4096).entries.size() == 2);
}

// --- wire: manifest ----

namespace {

/// A plan of three layers, its wire and its manifest as a document to damage.
struct ManifestCase {
  Plan plan = copy_plan({{"embed", {8, 32}},
                         {"layers.2.a", {32}},
                         {"layers.2.b", {4}, DType::f32},
                         {"layers.10.a", {32}},
                         {"norm", {32}}});
  Wire wire = make_wire(plan, false, 1024);
  nlohmann::ordered_json document = nlohmann::ordered_json::parse(encode_manifest(plan, wire));

  [[nodiscard]] auto check() const {
    return [text = document.dump(), this] { check_manifest(text, plan, wire); };
  }
  nlohmann::ordered_json& tensors() { return document["tensors"]; }
};

}  // namespace

TEST_CASE("The manifest is plain JSON that any reader can take apart") {
  const ManifestCase made;
  check_manifest(encode_manifest(made.plan, made.wire), made.plan, made.wire);
  const auto& document = made.document;
  CHECK(document["schema"] == "refit-manifest/1");
  CHECK(document["plan"] == digest_hex(made.plan.digest));
  CHECK(document["rounding"] == "flashinfer");
  CHECK(document["zero_scale"] == "keep");
  CHECK(document["digest"].get<std::string>().size() == 16);
  REQUIRE(document["tensors"].size() == 5);
  CHECK(document["tensors"][0].dump() == R"({"name":"embed","dtype":"BF16","shape":[8,32]})");
  CHECK(document["tensors"][2].dump() == R"({"name":"layers.2.b","dtype":"F32","shape":[4]})");
  // Encoded anew and read anew, it is the same text.
  CHECK(document.dump() == encode_manifest(made.plan, made.wire));
}

TEST_CASE("Names with quotes and letters beyond ASCII survive the manifest") {
  const Plan plan = copy_plan({{"a\"b\\c\n", {1}}, {"gewicht.größe", {1}}, {"", {1}}});
  const Wire wire = make_wire(plan, false, 4096);
  check_manifest(encode_manifest(plan, wire), plan, wire);
  CHECK(nlohmann::json::parse(encode_manifest(plan, wire))["tensors"][0]["name"] == "a\"b\\c\n");
  const Plan broken = copy_plan({{"a\xFF", {1}}});
  check_refused([&] { return encode_manifest(broken, make_wire(broken, false, 4096)); }, {"not UTF-8"});
}

TEST_CASE("The first difference of a manifest is named before anything moves") {
  ManifestCase made;
  auto& tensors = made.tensors();
  SECTION("missing") {
    tensors.erase(1);
    check_refused(made.check(), {"missing key layers.2.a"});
  }
  SECTION("missing at the end") {
    tensors.erase(4);
    check_refused(made.check(), {"missing key norm", "4 tensors"});
  }
  SECTION("duplicate") {
    tensors.insert(tensors.begin() + 2, tensors[1]);
    check_refused(made.check(), {"duplicate key \"layers.2.a\"", "layers.2.b was due"});
  }
  SECTION("duplicate at the end") {
    tensors.push_back(tensors[0]);
    check_refused(made.check(), {"duplicate key \"embed\""});
  }
  SECTION("unexpected") {
    tensors[2]["name"] = "layers.2.c";
    check_refused(made.check(), {"unexpected key \"layers.2.c\"", "layers.2.b was due"});
  }
  SECTION("unexpected at the end") {
    tensors.push_back({{"name", "lm_head"}, {"dtype", "BF16"}, {"shape", {32}}});
    check_refused(made.check(), {"unexpected key \"lm_head\""});
  }
  SECTION("sorted as text, layer 10 before layer 2") {
    std::swap(tensors[1], tensors[3]);
    check_refused(made.check(), {"reordered key \"layers.10.a\"", "layers.2.a was due"});
  }
  SECTION("dtype") {
    tensors[2]["dtype"] = "BF16";
    check_refused(made.check(), {"layers.2.b", "\"BF16\"", "F32"});
  }
  SECTION("shape") {
    tensors[0]["shape"] = {8, 33};
    check_refused(made.check(), {"embed", "[8,33]", "[8, 32]"});
  }
  SECTION("rank") {
    tensors[0]["shape"] = {256};
    check_refused(made.check(), {"embed", "[256]"});
  }
  SECTION("shape that is no number") {
    tensors[0]["shape"] = {8, -32};
    check_refused(made.check(), {"embed", "-32"});
  }
  SECTION("rounding") {
    made.document["rounding"] = "vllm-floor";
    check_refused(made.check(), {"rounding", "vllm-floor", "flashinfer"});
  }
  SECTION("zero scale") {
    made.document["zero_scale"] = "one";
    check_refused(made.check(), {"zero_scale"});
  }
  SECTION("digest") {
    made.document["digest"] = "0000000000000000";
    check_refused(made.check(), {"digest", "buckets"});
  }
  SECTION("plan") {
    made.document["plan"] = "0000000000000000";
    check_refused(made.check(), {"plan", "0000000000000000"});
  }
  SECTION("schema") {
    made.document["schema"] = "refit-manifest/2";
    check_refused(made.check(), {"schema", "refit-manifest/2"});
  }
  SECTION("missing member") {
    tensors[3].erase("dtype");
    check_refused(made.check(), {"layers.10.a", "dtype"});
  }
  SECTION("member of another type") {
    tensors[3]["name"] = 7;
    check_refused(made.check(), {"tensor 3", "name"});
  }
  SECTION("tensor that is no object") {
    tensors[3] = "layers.10.a";
    check_refused(made.check(), {"tensor 3", "name"});
  }
  SECTION("no tensors") {
    made.document.erase("tensors");
    check_refused(made.check(), {"tensors"});
  }
  SECTION("no object, no JSON, nothing") {
    for (const std::string text : {"[]", "7", "{", ""}) {
      check_refused([&] { check_manifest(text, made.plan, made.wire); }, {"The manifest received"});
    }
  }
}

TEST_CASE("Other bucket sizes and other layouts with the same tensors are told apart") {
  const auto tensors = experts("m.mlp", 2, 128, 64, true);
  const Plan plan = build(request_of(tensors, RecipeKind::routed_experts));
  const Wire wire = make_wire(plan, false, 65536);
  const std::string other_buckets = encode_manifest(plan, make_wire(plan, false, 32768));
  check_refused([&] { check_manifest(other_buckets, plan, wire); }, {"filled into buckets in another way"});
  const Plan other = build(request_of(tensors, RecipeKind::routed_experts, MoeLayout::checkpoint));
  const std::string other_layout = encode_manifest(other, make_wire(other, false, 65536));
  check_refused([&] { check_manifest(other_layout, plan, wire); }, {"plans differ"});
}

TEST_CASE("A checkpoint of another width under the same names is refused by its first shape") {
  const auto plan_of = [](std::uint64_t hidden) {
    return copy_plan({{"embed", {16, hidden}}, {"norm", {hidden}}});
  };
  const Plan live = plan_of(2048), incoming = plan_of(3072);
  const Wire wire = make_wire(live, false, 1 << 20);
  const std::string manifest = encode_manifest(incoming, make_wire(incoming, false, 1 << 20));
  check_refused([&] { check_manifest(manifest, live, wire); }, {"embed", "[16,3072]", "[16, 2048]"});
}

// --- wire: bucket messages ----

TEST_CASE("Key lists and offset maps of every bucket are read back in order") {
  const Metadata metadata = GENERATE(Metadata::key_list, Metadata::offset_map);
  const Plan plan =
      build(request_of(experts("model.layers.0.mlp", 3, 128, 64, true), RecipeKind::routed_experts));
  const Wire wire = make_wire(plan, true, 16384);
  REQUIRE(wire.buckets.size() > 2);
  KeyReader reader(wire);
  for (int refit = 0; refit < 2; ++refit) {
    reader.reset();
    for (std::size_t b = 0; b < wire.buckets.size(); ++b) read_own(reader, wire, b, metadata);
    reader.finish();
  }
}

TEST_CASE("A key list has the documented bytes") {
  const Plan plan = copy_plan({{"ab", {3}}, {"c", {2}, DType::f32}});
  const Wire wire = make_wire(plan, false, 4096);
  using namespace std::string_literals;
  CHECK(encode_bucket(wire, 0, Metadata::key_list) == "\1\2\0\0\0\2\0\0\0ab\1\0\0\0c"s);
  CHECK(encode_bucket(wire, 0, Metadata::offset_map) ==
        "\2\2\0\0\0"
        "\2\0\0\0ab\4\0\0\0BF16\1\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0"
        "\1\0\0\0c\3\0\0\0F32\1\0\0\0\2\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\10\0\0\0\0\0\0\0"s);
}

TEST_CASE("Completeness is asked at the end alone: a layer may come in two buckets") {
  const Plan plan = copy_plan({{"layers.0.a", {256}},
                               {"layers.0.b", {256}},
                               {"layers.0.c", {256}},
                               {"layers.0.d", {256}},
                               {"layers.0.e", {256}},
                               {"layers.0.f", {256}}});
  const Wire wire = make_wire(plan, false, 1536);
  REQUIRE(wire.buckets.size() == 2);
  KeyReader reader(wire);
  check_refused([&] { reader.finish(); }, {"0 of 6", "missing key layers.0.a"});
  read_own(reader, wire, 0, Metadata::key_list);
  check_refused([&] { reader.finish(); }, {"3 of 6", "missing key layers.0.d"});
  read_own(reader, wire, 1, Metadata::key_list);
  reader.finish();
}

TEST_CASE("Empty buckets are legal messages") {
  Wire wire = make_wire(copy_plan({{"a", {4}}}), false, 4096);
  wire.buckets.insert(wire.buckets.begin(), Bucket{});
  const Metadata metadata = GENERATE(Metadata::key_list, Metadata::offset_map);
  KeyReader reader(wire);
  read_own(reader, wire, 0, metadata);
  check_refused([&] { reader.finish(); }, {"missing key a"});
  read_own(reader, wire, 1, metadata);
  reader.finish();
}

TEST_CASE("Keys out of place are named with the reason, and the reader stays where it was") {
  const Plan plan = copy_plan({{"a", {4}}, {"b", {4}}, {"c", {4}}, {"d", {256}}, {"e", {4}}});
  const Wire wire = make_wire(plan, false, 1536);
  REQUIRE(wire.buckets.size() == 2);
  const Metadata metadata = GENERATE(Metadata::key_list, Metadata::offset_map);
  KeyReader reader(wire);
  // The sender's own wire, damaged in some way, speaks for the sender.
  const auto check_bucket = [&](const std::function<void(Wire&)>& damage,
                                std::initializer_list<std::string> words) {
    Wire sent = wire;
    damage(sent);
    check_refused(
        [&] { reader.read(encode_bucket(sent, 0, metadata), wire.buckets[0].used_bytes, metadata); }, words);
  };
  const auto erase = [](Wire& sent, std::ptrdiff_t at) {
    sent.entries.erase(sent.entries.begin() + at);
    sent.offsets.erase(sent.offsets.begin() + at);
    sent.buckets[0].entries -= 1;
  };
  check_bucket([&](Wire& w) { erase(w, 1); }, {"missing key b", "\"c\" came in its place"});
  check_bucket([&](Wire& w) { erase(w, 2); }, {"missing key c", "2 keys of 3"});
  check_bucket([](Wire& w) { std::swap(w.entries[0], w.entries[2]); }, {"reordered key \"c\"", "a was due"});
  check_bucket([](Wire& w) { w.entries[1] = w.entries[0]; }, {"duplicate key \"a\"", "b was due"});
  check_bucket([](Wire& w) { w.entries[1].name = std::string("x"); }, {"unexpected key \"x\"", "b was due"});
  check_bucket([](Wire& w) { w.entries[1].name = "b2"; }, {"unexpected key \"b2\""});
  check_bucket([](Wire& w) { w.buckets[0].entries = 4; }, {"reordered key \"d\""});
  check_bucket([](Wire& w) { w.buckets[0].entries = 4, w.entries[3].name = std::string("b"); },
               {"duplicate key \"b\""});
  check_bucket([](Wire& w) { w.buckets[0].entries = 4, w.entries[3].name = std::string("x"); },
               {"unexpected key \"x\""});
  check_refused([&] { reader.read(encode_bucket(wire, 1, metadata), wire.buckets[1].used_bytes, metadata); },
                {"bucket 0", "\"d\""});

  read_own(reader, wire, 0, metadata);
  check_refused([&] { reader.read(encode_bucket(wire, 0, metadata), wire.buckets[0].used_bytes, metadata); },
                {"bucket 1", "duplicate key \"a\""});
  read_own(reader, wire, 1, metadata);
  check_refused([&] { reader.read(encode_bucket(wire, 1, metadata), wire.buckets[1].used_bytes, metadata); },
                {"duplicate key \"d\""});
  reader.finish();
}

TEST_CASE("Wrong used bytes are refused with both numbers") {
  const Wire wire = make_wire(copy_plan({{"a", {4}}, {"b", {4}}}), false, 4096);
  const Metadata metadata = GENERATE(Metadata::key_list, Metadata::offset_map);
  KeyReader reader(wire);
  const std::string body = encode_bucket(wire, 0, metadata);
  for (const std::uint64_t used :
       {std::uint64_t{0}, std::uint64_t{519}, std::uint64_t{521}, ~std::uint64_t{0}}) {
    check_refused([&] { reader.read(body, used, metadata); }, {std::to_string(used), "520"});
  }
  reader.read(body, 520, metadata);
  reader.finish();
}

TEST_CASE("An offset map that disagrees in dtype, shape, offset or size is refused by key") {
  const Wire wire = make_wire(copy_plan({{"a", {4}}, {"b", {4}}}), false, 4096);
  KeyReader reader(wire);
  const auto check = [&](const std::function<void(Wire&)>& damage, std::initializer_list<std::string> words) {
    Wire sent = wire;
    damage(sent);
    check_refused(
        [&] { reader.read(encode_bucket(sent, 0, Metadata::offset_map), 520, Metadata::offset_map); }, words);
  };
  check([](Wire& w) { w.entries[1].dtype = DType::f16; }, {"b", "dtype \"F16\"", "BF16"});
  check([](Wire& w) { w.entries[1].shape = {2, 2}; }, {"b", "shape [2, 2]", "[4]"});
  check([](Wire& w) { w.offsets[1] = 1024; }, {"b", "offset 1024", "512"});
  check([](Wire& w) { w.entries[1].bytes = 7; }, {"b", "size 7", "8"});
  check([](Wire& w) { w.entries[1].shape = Shape(17, 1); }, {"17 dimensions"});
  check_refused([&] { reader.read(encode_bucket(wire, 0, Metadata::key_list), 520, Metadata::offset_map); },
                {"form 1"});
}

TEST_CASE("Messages cut anywhere, lengthened or with any byte changed are refused") {
  const Plan plan = copy_plan({{"layers.0.a", {4}}, {"layers.0.b", {2, 3}, DType::f32}, {"", {1}}});
  const Wire wire = make_wire(plan, false, 4096);
  const Metadata metadata = GENERATE(Metadata::key_list, Metadata::offset_map);
  const std::string body = encode_bucket(wire, 0, metadata);
  const std::uint64_t used = wire.buckets[0].used_bytes;
  KeyReader reader(wire);
  const auto refused = [&](const std::string& damaged) {
    const std::vector<char> exact(damaged.begin(),
                                  damaged.end());  // no byte behind the end, for the sanitizer
    return refusal([&] { reader.read({exact.data(), exact.size()}, used, metadata); }) != "(was not refused)";
  };
  for (std::size_t size = 0; size < body.size(); ++size) {
    CAPTURE(size);
    REQUIRE(refused(body.substr(0, size)));
  }
  REQUIRE(refused(body + '\0'));
  for (std::size_t i = 0; i < body.size(); ++i) {
    for (const int bit : {0, 1, 7}) {
      CAPTURE(i, bit);
      std::string damaged = body;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      REQUIRE(refused(damaged));
    }
  }
  std::string long_key = body;
  long_key.replace(5, 4, "\xFF\xFF\xFF\xFF");
  check_refused([&] { reader.read(long_key, used, metadata); }, {"truncated", "4294967295"});
  reader.read(body, used, metadata);
  reader.finish();
}
