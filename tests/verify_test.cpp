// verify: clean refits pass every check over every byte, and each planted fault is caught by its own check
// alone.
#include "refit/verify/verify.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>

#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "refit/layout/scale_128x4.hpp"
#include "support/catch.hpp"
#include "verify/written.hpp"

namespace {

using namespace refit;
using model::Kind;
using plan::Op;
using verify::Check;
using verify::Finding;
using verify::Result;

using Buffer = std::vector<std::byte>;
using Octets = std::span<const std::uint8_t>;

// --- a small model with everything in it ---

model::Tensor tensor(std::string name, Shape shape, Kind kind, int layer, int expert = -1,
                     DType dtype = DType::bf16) {
  return {.spec = {.name = std::move(name), .shape = std::move(shape), .dtype = dtype},
          .kind = kind,
          .layer = layer,
          .expert = expert};
}

/// `dense_rows` rows each in gate_proj and up_proj of the dense layer; one dense layer, two MoE layers of two
/// experts.
model::Inventory small_model(std::uint64_t dense_rows, bool gated) {
  model::Inventory model;
  auto& t = model.tensors;
  t.push_back(tensor("embed", {33, 64}, Kind::embedding, -1));
  t.push_back(tensor("layers.0.attn.q_proj.weight", {64, 64}, Kind::attention_q, 0));
  t.push_back(tensor("layers.0.attn.k_proj.weight", {32, 64}, Kind::attention_k, 0));
  t.push_back(tensor("layers.0.attn.v_proj.weight", {32, 64}, Kind::attention_v, 0));
  t.push_back(tensor("layers.0.norm.weight", {129}, Kind::norm, 0));
  t.push_back(tensor("layers.0.mlp.gate_proj.weight", {dense_rows, 160}, Kind::mlp_gate, 0));
  t.push_back(tensor("layers.0.mlp.up_proj.weight", {dense_rows, 160}, Kind::mlp_up, 0));
  t.push_back(tensor("layers.0.mlp.down_proj.weight", {128, 96}, Kind::mlp_down, 0));
  for (int layer = 1; layer < 3; ++layer) {
    const std::string mlp = "layers." + std::to_string(layer) + ".mlp.";
    t.push_back(tensor(mlp + "gate.weight", {2, 128}, Kind::router, layer));
    t.push_back(tensor(mlp + "bias", {5}, Kind::router_bias, layer, -1, DType::f32));
    for (int expert = 0; expert < 2; ++expert) {
      const std::string name = mlp + "experts." + std::to_string(expert) + ".";
      const std::uint64_t width = gated ? 64 : 128;
      if (gated)
        t.push_back(tensor(name + "gate_proj.weight", {width, 128}, Kind::expert_gate, layer, expert));
      t.push_back(tensor(name + "up_proj.weight", {width, 128}, Kind::expert_up, layer, expert));
      t.push_back(tensor(name + "down_proj.weight", {128, width}, Kind::expert_down, layer, expert));
    }
  }
  model.dims = {.hidden = 128, .layers = 3, .vocab = 33, .experts = 2, .expert_intermediate = 64};
  model.dims.gated_experts = gated;
  return model;
}

plan::Request small_request() {
  return {.model = small_model(65, true),
          .recipe = {.kind = model::RecipeKind::mlp, .ignore = {}},
          .quant = {.rounding = quant::Rounding::flashinfer, .zero_scale = quant::ZeroScale::one}};
}

/// Finite BF16 values over some 40 binades with zero blocks and subnormal blocks; F32 with all bits in use.
Buffer random_sources(const plan::Plan& plan) {
  Buffer arena(plan.source_arena_bytes);
  std::uint64_t counter = 0;
  for (const plan::Source& source : plan.sources) {
    for (std::uint64_t i = 0; i < num_elements(source.spec.shape); ++i) {
      const std::uint64_t bits = mix64(++counter);
      if (source.spec.dtype == DType::f32) {
        const float value = static_cast<float>(bits % 1000003) / 1000003.0f + 0.5f;
        std::memcpy(&arena[source.offset + i * 4], &value, 4);
        continue;
      }
      const std::uint64_t kind = i / 32 % 61;
      const std::uint64_t exponent = kind == 7 ? 0 : 100 + bits % 41;
      const std::uint64_t word = kind == 11 ? 0 : (bits >> 8 & 0x807F) | exponent << 7;
      std::memcpy(&arena[source.offset + i * 2], &word, 2);
    }
  }
  return arena;
}

// --- a refit, done by the fast paths and the plan's index arithmetic ---

std::span<const std::byte> rows_of_source(const plan::Plan& plan, const plan::Segment& segment,
                                          std::span<const std::byte> sources) {
  const plan::Source& source = plan.sources[segment.source];
  const std::uint64_t row = segment.cols * size_of(source.spec.dtype);
  return sources.subspan(source.offset + segment.source_row * row, segment.rows * row);
}

struct Canonical {
  Buffer values, scales;
};

/// What a trainer sends of a segment.
Canonical produce(const plan::Plan& plan, const plan::Segment& segment, std::span<const std::byte> sources,
                  const quant::Options& options) {
  const auto source = rows_of_source(plan, segment, sources);
  Canonical made{.values = Buffer(source.begin(), source.end()), .scales = {}};
  if (segment.op == Op::round_bf16) {
    for (std::size_t i = 0; i < made.values.size(); i += 4) {
      float value;
      std::memcpy(&value, &made.values[i], 4);
      value = quant::bf16_value(quant::bf16_from_float(value));
      std::memcpy(&made.values[i], &value, 4);
    }
  }
  if (segment.op != Op::quantize) return made;
  std::vector<std::uint16_t> words(source.size() / 2);
  std::memcpy(words.data(), source.data(), source.size());
  std::vector<std::uint8_t> q(words.size()), scales(words.size() / 32);
  quant::quantize_blocks(words, options, q, scales);
  const auto bytes = [](Octets octets) {
    const auto view = std::as_bytes(octets);
    return Buffer(view.begin(), view.end());
  };
  return {.values = bytes(q), .scales = bytes(scales)};
}

/// Puts canonical rows where the plan says.
void install(const plan::Plan& plan, const plan::Segment& segment, const Canonical& canonical,
             std::span<std::byte> destinations) {
  const plan::Destination& weight = plan.destinations[segment.destination];
  const std::uint64_t row = canonical.values.size() / segment.rows;
  for (std::uint64_t r = 0; r < segment.rows; ++r) {
    const std::uint64_t stored = plan::stored_row(plan, segment, r);
    std::memcpy(&destinations[weight.offset + segment.matrix * weight.matrix_bytes + stored * row],
                &canonical.values[r * row], row);
    if (weight.scale == plan::kNone) continue;
    const plan::Destination& scale = plan.destinations[weight.scale];
    const std::uint64_t cols = segment.cols / 32;
    const std::uint64_t stored_cols =
        scale.scale_layout == plan::ScaleLayout::tiled_128x4 ? layout::padded_scale_cols(cols) : cols;
    for (std::uint64_t c = 0; c < stored_cols; ++c) {
      destinations[scale.offset + segment.matrix * scale.matrix_bytes +
                   plan::scale_offset(scale, stored, c)] =
          c < cols ? canonical.scales[r * cols + c] : std::byte{0};
    }
  }
}

void install_zeros(const plan::Plan& plan, const plan::Segment& segment, std::span<std::byte> destinations) {
  const plan::Destination& scale = plan.destinations[segment.destination];
  for (std::uint64_t r = segment.row_begin; r < segment.row_begin + segment.rows; ++r) {
    for (std::uint64_t c = 0; c < segment.cols; ++c) {
      destinations[scale.offset + segment.matrix * scale.matrix_bytes + plan::scale_offset(scale, r, c)] =
          std::byte{0};
    }
  }
}

constexpr std::byte kFirstPoison{0xA5};

/// A staged refit with quantization at the trainer, kept in pieces so that faults can be put between them.
struct Refit {
  plan::Plan plan;
  plan::Wire wire;
  Buffer sources;
  std::vector<quant::Options> options;  ///< of each segment, as the trainer quantizes
  std::vector<Buffer> sent, received;   ///< buckets
  verify::WireEvidence evidence;
  Buffer destinations, second;  ///< engine arenas after two refits over two poisons
  std::byte second_poison{0x5A};
  std::vector<verify::Executed> executed;
  ThreadPool pool{2};

  explicit Refit(const plan::Request& request = small_request(), std::uint64_t bucket_bytes = 16384)
      : plan(plan::build(request)),
        wire(plan::make_wire(plan, true, bucket_bytes)),
        sources(random_sources(plan)) {
    options.assign(plan.segments.size(), plan.quant);
    send();
    receive();
  }

  void send() {
    sent.clear();
    for (const plan::Bucket& bucket : wire.buckets) {
      Buffer& packed = sent.emplace_back(bucket.used_bytes);
      for (std::uint32_t e = bucket.first_entry; e < bucket.first_entry + bucket.entries; ++e) {
        const plan::WireEntry& entry = wire.entries[e];
        const plan::Segment& segment = plan.segments[entry.segment];
        const Canonical made = produce(plan, segment, sources, options[entry.segment]);
        const Buffer& bytes = entry.scale ? made.scales : made.values;
        const std::uint64_t row = bytes.size() / segment.rows;
        std::memcpy(&packed[wire.offsets[e]], &bytes[entry.row_begin * row], entry.bytes);
      }
    }
    received = sent;
  }

  [[nodiscard]] std::span<std::byte> entry_bytes(std::vector<Buffer>& buckets, std::uint32_t e) const {
    std::size_t bucket = 0;
    while (e >= wire.buckets[bucket].first_entry + wire.buckets[bucket].entries) ++bucket;
    return std::span(buckets[bucket]).subspan(wire.offsets[e], wire.entries[e].bytes);
  }

  void receive() {
    const auto count = static_cast<std::uint32_t>(wire.entries.size());
    evidence = {};
    executed.clear();
    std::vector<Canonical> arrived(plan.segments.size());
    for (std::uint32_t e = 0; e < count; ++e) {
      evidence.sent.push_back(digest(entry_bytes(sent, e)));
      evidence.received.push_back(digest(entry_bytes(received, e)));
      evidence.times_received.push_back(1);
      Canonical& segment = arrived[wire.entries[e].segment];
      Buffer& to = wire.entries[e].scale ? segment.scales : segment.values;
      const auto bytes = entry_bytes(received, e);
      to.insert(to.end(), bytes.begin(), bytes.end());
    }
    const auto extents = verify::destination_extents(plan);
    for (auto* arena : {&destinations, &second}) {
      arena->assign(plan.destination_arena_bytes, std::byte{0});
      verify::fill_guards(extents, *arena);
      verify::poison(extents, *arena, arena == &destinations ? kFirstPoison : second_poison, pool);
      for (std::uint32_t s = 0; s < plan.segments.size(); ++s) {
        const plan::Segment& segment = plan.segments[s];
        if (segment.op == Op::zero) {
          install_zeros(plan, segment, *arena);
        } else {
          install(plan, segment, arrived[s], *arena);
        }
      }
    }
    for (std::uint32_t s = 0; s < plan.segments.size(); ++s) {
      executed.push_back({.segment = s, .row_begin = 0, .rows = plan.segments[s].rows});
    }
  }

  /// The same change in both engine arenas.
  void change(const std::function<void(std::span<std::byte>)>& change) {
    change(destinations);
    change(second);
  }

  [[nodiscard]] std::uint32_t destination(std::string_view name) const {
    return index_of(plan.destinations, [&](const auto& d) { return d.spec.name == name; });
  }
  [[nodiscard]] std::uint32_t entry(std::string_view name) const {
    return index_of(wire.entries, [&](const auto& e) { return e.name == name; });
  }
  [[nodiscard]] std::uint32_t segment(std::string_view name) const {
    return index_of(plan.segments, [&](const auto& s) { return s.wire_name == name; });
  }

  [[nodiscard]] Result check_packed(std::vector<bool>* wrong = nullptr) {
    Result result;
    for (std::size_t b = 0; b < wire.buckets.size(); ++b) {
      result.merge(verify::check_packed(plan, wire, b, sent[b], sources, pool, wrong));
    }
    return result;
  }

  [[nodiscard]] Result check_poison() {
    return verify::check_poison(plan, verify::destination_digests(plan, destinations, pool),
                                verify::destination_digests(plan, second, pool), second, second_poison);
  }

  [[nodiscard]] verify::Verdict verdict() {
    verify::Verdict verdict;
    verdict[Check::wire] = verify::check_wire(wire, evidence);
    verdict[Check::quantizer] = check_packed();
    const auto mask = verify::mask_of(plan, wire, evidence, sources, pool);
    verdict[Check::layout] = verify::check_layout(plan, sources, destinations, mask, pool);
    verdict[Check::coverage] = verify::check_executed(plan, executed, false, pool);
    verdict[Check::coverage].merge(check_poison());
    verdict[Check::coverage].merge(verify::check_guards(verify::destination_extents(plan), destinations));
    return verdict;
  }

 private:
  template <class Items, class Wanted>
  static std::uint32_t index_of(const Items& items, Wanted wanted) {
    const auto found = std::find_if(items.begin(), items.end(), wanted);
    REQUIRE(found != items.end());
    return static_cast<std::uint32_t>(found - items.begin());
  }
};

/// The findings of the only check that failed.
std::vector<Finding> found_by_alone(Refit& refit, Check check) {
  const verify::Verdict verdict = refit.verdict();
  for (const Check other : verify::kChecks) {
    CAPTURE(verify::name_of(other));
    CHECK((verdict[other].mismatches != 0) == (other == check));
    CHECK(verdict[other].findings.empty() == (other != check));
  }
  CHECK_FALSE(verdict.passed());
  return verdict[check].findings;
}

struct Differing {
  std::uint64_t first = 0, count = 0;
};
Differing differing(std::span<const std::byte> a, std::span<const std::byte> b) {
  REQUIRE(a.size() == b.size());
  Differing result;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && result.count++ == 0) result.first = i;
  }
  return result;
}

std::string hex(std::byte value) {
  constexpr char digits[] = "0123456789abcdef";
  const auto v = std::to_integer<unsigned>(value);
  return {'0', 'x', digits[v / 16], digits[v % 16]};
}

}  // namespace

// --- clean data ---

TEST_CASE("A clean refit passes every check over every byte") {
  const auto moe_layout = GENERATE(plan::MoeLayout::flashinfer_trtllm, plan::MoeLayout::checkpoint);
  const bool gated = GENERATE(true, false);
  // 7000 rows of 160 bytes are more than one piece of work, and pieces of the fused matrix hold both its
  // parts.
  const auto dense_rows = GENERATE(std::uint64_t{64}, std::uint64_t{65}, std::uint64_t{7000});
  CAPTURE(gated, dense_rows);
  plan::Request request = small_request();
  request.model = small_model(dense_rows, gated);
  request.moe_layout = moe_layout;
  Refit refit(request, 4 << 20);
  const plan::Plan& plan = refit.plan;

  const Result wire = verify::check_wire(refit.wire, refit.evidence);
  CHECK(wire.mismatches == 0);
  CHECK(wire.bytes == refit.wire.bytes);
  std::vector<bool> wrong;
  const Result packed = refit.check_packed(&wrong);
  CHECK(packed.mismatches == 0);
  CHECK(packed.bytes == refit.wire.bytes);
  CHECK(wrong == std::vector<bool>(refit.wire.entries.size()));

  const auto mask = verify::mask_of(plan, refit.wire, refit.evidence, refit.sources, refit.pool);
  CHECK(mask == std::vector<bool>(plan.segments.size()));
  CHECK(verify::mask_of(plan, refit.wire, refit.evidence, wrong) == mask);
  const Result layout = verify::check_layout(plan, refit.sources, refit.destinations, mask, refit.pool);
  CHECK(layout.mismatches == 0);
  CHECK(layout.bytes == plan.destination_bytes);

  const Result quantizer =
      verify::check_quantizer_in_place(plan, refit.sources, refit.destinations, refit.pool);
  CHECK(quantizer.mismatches == 0);
  CHECK(quantizer.bytes == refit.wire.bytes);
  const verify::InPlace both = verify::check_in_place(plan, refit.sources, refit.destinations, refit.pool);
  CHECK(both.quantizer.mismatches == 0);
  CHECK(both.quantizer.bytes == quantizer.bytes);
  CHECK(both.layout.mismatches == 0);
  CHECK(both.layout.bytes == layout.bytes);

  const Result executed = verify::check_executed(plan, refit.executed, false, refit.pool);
  CHECK(executed.mismatches == 0);
  CHECK(executed.bytes == plan.destination_bytes);
  const Result canonical = verify::check_executed(plan, refit.executed, true, refit.pool);
  CHECK(canonical.mismatches == 0);
  CHECK(canonical.bytes == refit.wire.bytes);

  const Result poison = refit.check_poison();
  CHECK(poison.mismatches == 0);
  CHECK(poison.bytes == plan.destination_bytes);
  const Result guards = verify::check_guards(verify::destination_extents(plan), refit.destinations);
  CHECK(guards.mismatches == 0);
  CHECK(guards.bytes == plan.destination_arena_bytes - plan.destination_bytes);
  CHECK(refit.verdict().passed());
}

TEST_CASE("The references follow the plan's rounding and its choice for scale byte 0") {
  const auto rounding = GENERATE(from_range(quant::kRoundings.begin(), quant::kRoundings.end()));
  const auto zero_scale = GENERATE(quant::ZeroScale::keep, quant::ZeroScale::one);
  plan::Request request = small_request();
  request.quant = {.rounding = rounding, .zero_scale = zero_scale};
  Refit refit(request);
  CHECK(refit.verdict().passed());
  const verify::InPlace both =
      verify::check_in_place(refit.plan, refit.sources, refit.destinations, refit.pool);
  CHECK(both.quantizer.mismatches == 0);
  CHECK(both.layout.mismatches == 0);

  // The other choice for byte 0 has to be seen: the sources hold blocks of zeros.
  refit.plan.quant.zero_scale =
      zero_scale == quant::ZeroScale::keep ? quant::ZeroScale::one : quant::ZeroScale::keep;
  const bool has_byte_0 = rounding != quant::Rounding::vllm_floor;
  CHECK((refit.check_packed().mismatches != 0) == has_byte_0);
}

TEST_CASE("The pool's width changes nothing that a check reports") {
  Refit refit;
  refit.change([](std::span<std::byte> arena) {
    for (std::size_t i = 300; i < arena.size(); i += 997) arena[i] ^= std::byte{1};
  });
  ThreadPool one(1), five(5);
  const verify::InPlace narrow = verify::check_in_place(refit.plan, refit.sources, refit.destinations, one);
  const verify::InPlace wide = verify::check_in_place(refit.plan, refit.sources, refit.destinations, five);
  const auto same = [](const Result& a, const Result& b) {
    REQUIRE(a.findings.size() == b.findings.size());
    CHECK(a.mismatches == b.mismatches);
    for (std::size_t i = 0; i < a.findings.size(); ++i) {
      CHECK(a.findings[i].tensor == b.findings[i].tensor);
      CHECK(a.findings[i].index == b.findings[i].index);
      CHECK(a.findings[i].count == b.findings[i].count);
    }
  };
  same(narrow.quantizer, wide.quantizer);
  same(narrow.layout, wide.layout);
  CHECK(narrow.layout.findings.size() > 10);
}

// --- wire ---

TEST_CASE("A bit flipped on the way is caught by the wire check alone") {
  const std::string key = GENERATE("layers.2.mlp.experts.1.up_proj.weight",
                                   "layers.2.mlp.experts.1.up_proj.weight_scale_from_checkpoint",
                                   "layers.0.mlp.gate_proj.weight", "layers.0.attn.k_proj.weight", "embed");
  CAPTURE(key);
  Refit refit;
  refit.entry_bytes(refit.received, refit.entry(key))[63] ^= std::byte{0x10};
  refit.receive();
  const auto findings = found_by_alone(refit, Check::wire);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].tensor == key);
  CHECK(findings[0].count == 1);
  CHECK(findings[0].what == "arrived with other bytes than were sent");
  CHECK(findings[0].expected == "digest " + digest_hex(refit.evidence.sent[refit.entry(key)]));
  CHECK(findings[0].got == "digest " + digest_hex(refit.evidence.received[refit.entry(key)]));

  // The mask is what keeps the layout check out of it, and takes this segment's bytes out of its count.
  const auto mask = verify::mask_of(refit.plan, refit.wire, refit.evidence, refit.sources, refit.pool);
  const std::uint32_t number = refit.wire.entries[refit.entry(key)].segment;
  CHECK(std::count(mask.begin(), mask.end(), true) == 1);
  CHECK(mask[number]);
  CHECK(verify::mask_of(refit.plan, refit.wire, refit.evidence, std::vector<bool>{}) == mask);
  const verify::InPlace in_place =
      verify::check_in_place(refit.plan, refit.sources, refit.destinations, refit.pool, mask);
  CHECK(in_place.quantizer.mismatches == 0);
  CHECK(in_place.layout.mismatches == 0);
  const auto check_layout = [&](const std::vector<bool>& masked) {
    return verify::check_layout(refit.plan, refit.sources, refit.destinations, masked, refit.pool);
  };
  const plan::Segment& segment = refit.plan.segments[number];
  const bool quantized = segment.op == Op::quantize;
  const std::uint64_t own = segment.rows * (quantized ? segment.cols + segment.cols / 32 : 2 * segment.cols);
  CHECK(check_layout(mask).bytes == refit.plan.destination_bytes - own);
  CHECK(in_place.layout.bytes == refit.plan.destination_bytes - own);
  CHECK(in_place.quantizer.bytes == refit.wire.bytes - own);
  CHECK(check_layout({}).mismatches == 1);
}

TEST_CASE("A key that never or twice arrived is found by name") {
  Refit refit;
  const std::uint32_t e = refit.entry("layers.0.norm.weight");
  const auto times = GENERATE(0u, 2u);
  refit.evidence.times_received[e] = times;
  const auto findings = found_by_alone(refit, Check::wire);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].tensor == "layers.0.norm.weight");
  CHECK(findings[0].what == (times == 0 ? "key never arrived" : "key arrived more than once"));
  CHECK(findings[0].got == (times == 0 ? "never received" : "received 2 times"));
}

TEST_CASE("Records of another number of keys than the wire's are refused") {
  Refit refit;
  refit.evidence.received.pop_back();
  CHECK_THROWS_AS(verify::check_wire(refit.wire, refit.evidence), Error);
}

TEST_CASE("Two sides that see other bytes in one parameter are found by its name") {
  Refit refit;
  const auto sender = verify::destination_digests(refit.plan, refit.destinations, refit.pool);
  const std::uint32_t number = refit.destination("layers.1.mlp.experts.w2_weight_scale");
  const plan::Destination& scale = refit.plan.destinations[number];
  CHECK(sender[number] == digest(std::span(refit.destinations).subspan(scale.offset, scale.spec.bytes())));
  refit.destinations[scale.offset + 5] ^= std::byte{1};
  const auto receiver = verify::destination_digests(refit.plan, refit.destinations, refit.pool);
  const Result same = verify::check_mapping(refit.plan, sender, sender);
  CHECK(same.mismatches == 0);
  CHECK(same.bytes == refit.plan.destination_bytes);
  const Result result = verify::check_mapping(refit.plan, sender, receiver);
  REQUIRE(result.findings.size() == 1);
  CHECK(result.findings[0].tensor == scale.spec.name);
  CHECK(result.mismatches == 1);
}

// --- quantizer ---

TEST_CASE("Another rounding mode in what was sent is caught by the quantizer check alone") {
  const std::string key = GENERATE("layers.1.mlp.experts.0.gate_proj.weight",
                                   "layers.2.mlp.experts.1.down_proj.weight", "layers.0.mlp.up_proj.weight");
  CAPTURE(key);
  Refit refit;
  const std::vector<Buffer> right = refit.sent;
  refit.options[refit.segment(key)].rounding = quant::Rounding::torchao_floor;
  refit.send();
  refit.receive();

  const auto findings = found_by_alone(refit, Check::quantizer);
  REQUIRE(findings.size() == 2);
  std::vector<Buffer> expected = right;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::uint32_t e = refit.entry(key) + static_cast<std::uint32_t>(i);
    CHECK(findings[i].tensor == refit.wire.entries[e].name);
    const Differing difference = differing(refit.entry_bytes(expected, e), refit.entry_bytes(refit.sent, e));
    CHECK(difference.count > 0);
    CHECK(findings[i].index == difference.first);
    CHECK(findings[i].count == difference.count);
    CHECK(findings[i].expected == hex(refit.entry_bytes(expected, e)[difference.first]));
    CHECK(findings[i].got == hex(refit.entry_bytes(refit.sent, e)[difference.first]));
    CHECK(findings[i].what == "differs from the scalar reference");
    const auto reference = verify::reference_entry(refit.plan, refit.wire, e, refit.sources);
    CHECK(differing(reference, refit.entry_bytes(expected, e)).count == 0);
  }

  std::vector<bool> wrong;
  CHECK(refit.check_packed(&wrong).mismatches == findings[0].count + findings[1].count);
  CHECK(std::count(wrong.begin(), wrong.end(), true) == 2);
  CHECK(verify::mask_of(refit.plan, refit.wire, refit.evidence, wrong) ==
        verify::mask_of(refit.plan, refit.wire, refit.evidence, refit.sources, refit.pool));
}

TEST_CASE("A copied tensor that was sent with another byte is caught by the quantizer check alone") {
  Refit refit;
  refit.entry_bytes(refit.sent, refit.entry("embed"))[2 * 64 * 32 + 1] ^= std::byte{0x80};
  refit.received = refit.sent;
  refit.receive();
  const auto findings = found_by_alone(refit, Check::quantizer);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].tensor == "embed");
  CHECK(findings[0].index == 2 * 64 * 32 + 1);
  CHECK(findings[0].count == 1);
  CHECK(findings[0].what == "differs from the source");
}

TEST_CASE("Values and scales that fall into different buckets are checked like those that do not") {
  // 8320 bytes of values fill a bucket; their scales open the next.
  plan::Request request = small_request();
  Refit refit(request, 65 * 160);
  const std::uint32_t e = refit.entry("layers.0.mlp.up_proj.weight_scale_from_checkpoint");
  const auto opens = [&](const plan::Bucket& bucket) { return bucket.first_entry == e; };
  REQUIRE(std::count_if(refit.wire.buckets.begin(), refit.wire.buckets.end(), opens) == 1);
  CHECK(refit.verdict().passed());
  refit.entry_bytes(refit.sent, e)[324] ^= std::byte{1};
  const Result result = refit.check_packed();
  REQUIRE(result.findings.size() == 1);
  CHECK(result.findings[0].tensor == refit.wire.entries[e].name);
  CHECK(result.findings[0].index == 324);
  CHECK(result.mismatches == 1);
}

TEST_CASE("A tensor of several pieces of work is one tensor to every check") {
  plan::Request request = small_request();
  request.model = small_model(7000, true);
  Refit refit(request, 4 << 20);
  const std::string name = "layers.0.mlp.up_proj.weight";
  const std::uint32_t e = refit.entry(name);
  const std::uint64_t at = 6990 * 160 + 3;
  refit.entry_bytes(refit.sent, e)[at] ^= std::byte{1};
  refit.entry_bytes(refit.sent, e + 1)[6999 * 5 + 4] ^= std::byte{1};
  refit.received = refit.sent;
  refit.receive();
  const auto findings = found_by_alone(refit, Check::quantizer);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].tensor == name);
  CHECK(findings[0].index == at);
  CHECK(findings[0].count == 1);
  CHECK(findings[1].tensor == name + "_scale_from_checkpoint");
  CHECK(findings[1].index == 6999 * 5 + 4);
  CHECK(findings[1].count == 1);

  const auto unmasked = verify::check_layout(refit.plan, refit.sources, refit.destinations, {}, refit.pool);
  REQUIRE(unmasked.findings.size() == 2);
  CHECK(unmasked.findings[0].index == 7000 * 160 + at);
  CHECK(unmasked.findings[1].index == layout::scale_128x4_offset(13999, 4, 8));

  const auto digests = verify::destination_digests(refit.plan, refit.destinations, refit.pool);
  for (std::size_t i = 0; i < digests.size(); ++i) {
    const plan::Destination& d = refit.plan.destinations[i];
    CHECK(digests[i] == digest(std::span(refit.destinations).subspan(d.offset, d.spec.bytes())));
  }
}

TEST_CASE("Keys that carry some rows of a tensor are checked from their own first row on") {
  Refit refit(small_request(), 1000);
  const std::uint32_t e = refit.entry("layers.0.mlp.up_proj.weight#rows=6:12");
  CHECK(refit.verdict().passed());
  refit.entry_bytes(refit.sent, e)[161] ^= std::byte{1};
  refit.received = refit.sent;
  refit.receive();
  const auto findings = found_by_alone(refit, Check::quantizer);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].tensor == refit.wire.entries[e].name);
  CHECK(findings[0].index == 161);
}

TEST_CASE("A wire without quantization has to carry the source's own bytes") {
  Refit refit;
  const plan::Wire wire = plan::make_wire(refit.plan, false, 1 << 20);
  REQUIRE(wire.buckets.size() == 1);
  Buffer packed(wire.buckets[0].used_bytes);
  verify::WireEvidence evidence;
  for (std::size_t e = 0; e < wire.entries.size(); ++e) {
    const auto bytes =
        rows_of_source(refit.plan, refit.plan.segments[wire.entries[e].segment], refit.sources);
    CHECK(differing(verify::reference_entry(refit.plan, wire, e, refit.sources), bytes).count == 0);
    std::copy(bytes.begin(), bytes.end(), packed.begin() + static_cast<std::ptrdiff_t>(wire.offsets[e]));
    evidence.received.push_back(digest(bytes));
  }
  evidence.sent = evidence.received;
  evidence.times_received.assign(wire.entries.size(), 1);
  const Result clean = verify::check_packed(refit.plan, wire, 0, packed, refit.sources, refit.pool);
  CHECK(clean.mismatches == 0);
  CHECK(clean.bytes == refit.plan.source_bytes);
  CHECK(verify::mask_of(refit.plan, wire, evidence, refit.sources, refit.pool) ==
        std::vector<bool>(refit.plan.segments.size()));

  packed[wire.offsets[7] + 9] ^= std::byte{4};
  const Result result = verify::check_packed(refit.plan, wire, 0, packed, refit.sources, refit.pool);
  REQUIRE(result.findings.size() == 1);
  CHECK(result.findings[0].tensor == wire.entries[7].name);
  CHECK(result.findings[0].index == 9);
  CHECK(result.findings[0].what == "differs from the source");
}

TEST_CASE("A router bias that went through BF16 is found on exactly the bias tensors") {
  plan::Request request = small_request();
  request.router_bias_bf16 = true;
  Refit refit(request);
  const auto findings = found_by_alone(refit, Check::quantizer);
  const verify::InPlace in_place =
      verify::check_in_place(refit.plan, refit.sources, refit.destinations, refit.pool);
  const auto unmasked = verify::check_layout(refit.plan, refit.sources, refit.destinations, {}, refit.pool);
  for (const auto& list :
       {findings, in_place.quantizer.findings, in_place.layout.findings, unmasked.findings}) {
    REQUIRE(list.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(list[i].tensor == (i == 0 ? "layers.1.mlp.bias" : "layers.2.mlp.bias"));
      const plan::Segment& segment = refit.plan.segments[refit.segment(list[i].tensor)];
      CHECK(segment.op == Op::round_bf16);
      const auto source = rows_of_source(refit.plan, segment, refit.sources);
      const Canonical rounded = produce(refit.plan, segment, refit.sources, {});
      const Differing difference = differing(source, rounded.values);
      CHECK(difference.count > 5);
      CHECK(list[i].index == difference.first);
      CHECK(list[i].count == difference.count);
      CHECK(list[i].what.find(" instead of ") != std::string::npos);
      const auto reference = verify::reference_rows(refit.plan, segment, 0, 5, refit.sources);
      CHECK(differing(reference.values, source).count == 0);
    }
  }
}

TEST_CASE("Without canonical bytes another rounding mode is found where the engine keeps them") {
  Refit refit;
  const Buffer right = refit.destinations;
  refit.options[refit.segment("layers.1.mlp.experts.1.gate_proj.weight")].rounding =
      quant::Rounding::torchao_floor;
  refit.send();
  refit.receive();
  const verify::InPlace both =
      verify::check_in_place(refit.plan, refit.sources, refit.destinations, refit.pool);
  const Result alone =
      verify::check_quantizer_in_place(refit.plan, refit.sources, refit.destinations, refit.pool);
  for (const auto& list : {both.quantizer.findings, both.layout.findings, alone.findings}) {
    REQUIRE(list.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(list[i].tensor ==
            (i == 0 ? "layers.1.mlp.experts.w13_weight" : "layers.1.mlp.experts.w13_weight_scale"));
      const plan::Destination& d = refit.plan.destinations[refit.destination(list[i].tensor)];
      const Differing difference = differing(std::span(right).subspan(d.offset, d.spec.bytes()),
                                             std::span(refit.destinations).subspan(d.offset, d.spec.bytes()));
      CHECK(difference.count > 0);
      CHECK(list[i].index == difference.first);
      CHECK(list[i].count == difference.count);
    }
  }
}

// --- layout ---

namespace {

/// Bytes of one matrix in an engine arena.
std::span<std::byte> matrix_of(const Refit& refit, std::span<std::byte> arena, std::string_view name,
                               std::uint64_t matrix) {
  const plan::Destination& d = refit.plan.destinations[refit.destination(name)];
  return arena.subspan(d.offset + matrix * d.matrix_bytes, d.matrix_bytes);
}

void swap_bytes(std::span<std::byte> a, std::span<std::byte> b) {
  REQUIRE(a.size() == b.size());
  std::swap_ranges(a.begin(), a.end(), b.begin());
}

constexpr std::string_view kW13 = "layers.1.mlp.experts.w13_weight";
constexpr std::string_view kW13Scale = "layers.1.mlp.experts.w13_weight_scale";
constexpr std::string_view kW2Scale = "layers.2.mlp.experts.w2_weight_scale";
constexpr std::string_view kGateUpScale = "layers.0.mlp.gate_up_proj.weight_scale";

struct LayoutFault {
  std::string name;
  std::vector<std::string_view> tensors;
  std::function<void(const Refit&, std::span<std::byte>)> plant;
};

const std::vector<LayoutFault>& layout_faults() {
  static const std::vector<LayoutFault> faults = {
      {"rows unshuffled",
       {kW13},
       [](const Refit& refit, std::span<std::byte> arena) {
         const auto matrix = matrix_of(refit, arena, kW13, 1);
         const Buffer shuffled(matrix.begin(), matrix.end());
         const auto& map = refit.plan.row_maps[refit.plan.destinations[refit.destination(kW13)].row_map];
         for (std::size_t r = 0; r < 128; ++r) {
           std::memcpy(&matrix[r * 128], &shuffled[map[r] * std::size_t{128}], 128);
         }
       }},
      {"w1 and w3 exchanged, values and scales",
       {kW13, kW13Scale},
       [](const Refit& refit, std::span<std::byte> arena) {
         const plan::Plan& plan = refit.plan;
         for (const auto& [from, to] : {std::pair("up", "gate"), std::pair("gate", "up")}) {
           const auto number = [&](std::string_view part) {
             return refit.segment("layers.1.mlp.experts.0." + std::string(part) + "_proj.weight");
           };
           install(plan, plan.segments[number(to)],
                   produce(plan, plan.segments[number(from)], refit.sources, plan.quant), arena);
         }
       }},
      {"two experts swapped",
       {kW13, kW13Scale},
       [](const Refit& refit, std::span<std::byte> arena) {
         for (const std::string_view name : {kW13, kW13Scale}) {
           swap_bytes(matrix_of(refit, arena, name, 0), matrix_of(refit, arena, name, 1));
         }
       }},
      {"two scale rows swapped",
       {kW13Scale},
       [](const Refit& refit, std::span<std::byte> arena) {
         const auto matrix = matrix_of(refit, arena, kW13Scale, 1);
         swap_bytes(matrix.subspan(0, 4), matrix.subspan(16 * 5, 4));
       }},
      {"row-major scales instead of 128x4",
       {kGateUpScale},
       [](const Refit& refit, std::span<std::byte> arena) {
         const auto matrix = matrix_of(refit, arena, kGateUpScale, 0);
         std::vector<std::uint8_t> tiled(matrix.size()), rows(130 * 5);
         std::memcpy(tiled.data(), matrix.data(), tiled.size());
         layout::untile_scales_128x4(tiled, 130, 5, rows);
         std::ranges::fill(matrix, std::byte{0});
         std::memcpy(matrix.data(), rows.data(), rows.size());
       }},
      {"two rows of a fused matrix swapped",
       {"layers.0.attn.qkv_proj.weight"},
       [](const Refit& refit, std::span<std::byte> arena) {
         const auto matrix = matrix_of(refit, arena, "layers.0.attn.qkv_proj.weight", 0);
         swap_bytes(matrix.subspan(63 * 128, 128), matrix.subspan(64 * 128, 128));
       }},
  };
  return faults;
}

}  // namespace

TEST_CASE("Every wrong layout of right bytes is caught by the layout check alone") {
  for (const LayoutFault& fault : layout_faults()) {
    CAPTURE(fault.name);
    Refit refit;
    const Buffer right = refit.destinations;
    refit.change([&](std::span<std::byte> arena) { fault.plant(refit, arena); });
    const auto findings = found_by_alone(refit, Check::layout);
    REQUIRE(findings.size() == fault.tensors.size());
    for (std::size_t i = 0; i < findings.size(); ++i) {
      CHECK(findings[i].tensor == fault.tensors[i]);
      const plan::Destination& d = refit.plan.destinations[refit.destination(fault.tensors[i])];
      const auto expected = std::span(right).subspan(d.offset, d.spec.bytes());
      const auto got = std::span(refit.destinations).subspan(d.offset, d.spec.bytes());
      const Differing difference = differing(expected, got);
      CHECK(findings[i].index == difference.first);
      CHECK(findings[i].count == difference.count);
      CHECK(findings[i].expected == hex(expected[difference.first]));
      CHECK(findings[i].got == hex(got[difference.first]));
    }
  }
}

TEST_CASE("Scale padding that is not zero is caught by the layout check alone, and called that") {
  // Byte 2 of a w2 matrix is column 2 of two; byte 0 of the dense matrix's third row group of its second tile
  // row belongs to row 128 + 64.
  const auto [name, place] = GENERATE(table<std::string_view, std::uint64_t>(
      {{kW2Scale, 2}, {kW2Scale, 512 + 511}, {kGateUpScale, 128 * 8 + 8}, {kGateUpScale, 2047}}));
  CAPTURE(name, place);
  Refit refit;
  refit.change([&, &tensor = name, &at = place](std::span<std::byte> arena) {
    arena[refit.plan.destinations[refit.destination(tensor)].offset + at] = std::byte{0x7F};
  });
  const auto findings = found_by_alone(refit, Check::layout);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].tensor == name);
  CHECK(findings[0].index == place);
  CHECK(findings[0].count == 1);
  CHECK(findings[0].expected == "0x00");
  CHECK(findings[0].got == "0x7f");
  CHECK(findings[0].what == "scale padding is not zero");
  // No canonical byte lies there.
  CHECK(verify::check_quantizer_in_place(refit.plan, refit.sources, refit.destinations, refit.pool)
            .mismatches == 0);
}

TEST_CASE("A mask hides its own segment's rows in a shuffled matrix and no others") {
  Refit refit;
  std::vector<bool> mask(refit.plan.segments.size());
  const std::uint32_t gate = refit.segment("layers.1.mlp.experts.1.gate_proj.weight");
  mask[gate] = true;
  const plan::Destination& w13 = refit.plan.destinations[refit.destination(kW13)];
  const plan::Destination& scale = refit.plan.destinations[refit.destination(kW13Scale)];
  // Every byte of expert 1 is wrong: gate rows are 64 of 128.
  std::uint64_t first_value = w13.matrix_bytes, first_scale = scale.matrix_bytes;
  const plan::Segment& up = refit.plan.segments[refit.segment("layers.1.mlp.experts.1.up_proj.weight")];
  for (std::uint64_t r = 0; r < 64; ++r) {
    const std::uint64_t stored = plan::stored_row(refit.plan, up, r);
    first_value = std::min(first_value, stored * 128);
    first_scale = std::min(first_scale, plan::scale_offset(scale, stored, 0));
  }
  refit.change([&](std::span<std::byte> arena) {
    for (const std::string_view name : {kW13, kW13Scale}) {
      for (std::byte& byte : matrix_of(refit, arena, name, 1)) byte ^= std::byte{0xFF};
    }
  });
  const Result result = verify::check_layout(refit.plan, refit.sources, refit.destinations, mask, refit.pool);
  CHECK(result.bytes == refit.plan.destination_bytes - 64 * (128 + 4));
  REQUIRE(result.findings.size() == 2);
  CHECK(result.findings[0].index == w13.matrix_bytes + first_value);
  CHECK(result.findings[0].count == 64 * 128);
  CHECK(result.findings[1].index == scale.matrix_bytes + first_scale);
  CHECK(result.findings[1].count == 64 * 4);
}

TEST_CASE("A mask of another length than the plan's segments is refused") {
  Refit refit;
  CHECK_THROWS_AS(
      verify::check_layout(refit.plan, refit.sources, refit.destinations, std::vector<bool>(1), refit.pool),
      Error);
}

TEST_CASE("Arenas that are shorter than the plan's are refused") {
  Refit refit;
  const auto short_of = [](const Buffer& arena) { return std::span(arena).first(arena.size() - 1); };
  CHECK_THROWS_AS(verify::check_in_place(refit.plan, short_of(refit.sources), refit.destinations, refit.pool),
                  Error);
  CHECK_THROWS_AS(verify::check_in_place(refit.plan, refit.sources, short_of(refit.destinations), refit.pool),
                  Error);
  CHECK_THROWS_AS(
      verify::check_packed(refit.plan, refit.wire, 0, short_of(refit.sent[0]), refit.sources, refit.pool),
      Error);
}

// --- coverage ---

TEST_CASE("A byte that kept its poison is caught by coverage alone, even where it looks right") {
  Refit refit;
  const plan::Destination& d = refit.plan.destinations[refit.destination("layers.1.mlp.bias")];
  const auto bytes = [&](Buffer& arena) { return std::span(arena).subspan(d.offset, d.spec.bytes()); };
  // The first refit began with what the byte has to become; the second with a value that is nowhere else.
  std::byte absent{0};
  while (std::ranges::find(bytes(refit.second), absent) != bytes(refit.second).end()) {
    absent = std::byte(std::to_integer<unsigned>(absent) + 1);
  }
  refit.second_poison = absent;
  refit.receive();
  bytes(refit.second)[6] = absent;
  const auto findings = found_by_alone(refit, Check::coverage);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].tensor == "layers.1.mlp.bias");
  CHECK(findings[0].index == 6);
  CHECK(findings[0].count == 1);
  CHECK(findings[0].got == hex(absent));
  CHECK(findings[0].what == "still holds the poison");
}

TEST_CASE("The poison check points at the longest stretch of poison") {
  Refit refit;
  const plan::Destination& d = refit.plan.destinations[refit.destination("embed")];
  const auto second = std::span(refit.second).subspan(d.offset, d.spec.bytes());
  second[0] = refit.second_poison;
  std::ranges::fill(second.subspan(1000, 128), refit.second_poison);
  second[999] = second[1128] = std::byte{1};
  const Result result = refit.check_poison();
  REQUIRE(result.findings.size() == 1);
  CHECK(result.findings[0].index == 1000);
  CHECK(result.findings[0].count == 128);
}

TEST_CASE("Two refits that differ without any poison left are found, too") {
  Refit refit;
  const plan::Destination& d = refit.plan.destinations[refit.destination("layers.1.mlp.bias")];
  const auto second = std::span(refit.second).subspan(d.offset, d.spec.bytes());
  std::ranges::fill(second, std::byte{1});
  const Result result = refit.check_poison();
  REQUIRE(result.findings.size() == 1);
  CHECK(result.findings[0].tensor == "layers.1.mlp.bias");
  CHECK(result.mismatches == 1);
  CHECK(result.findings[0].what == "two refits of the same weights over two poisons gave other bytes");
}

TEST_CASE("Rows that nobody wrote are caught by coverage alone, in either order of rows") {
  Refit refit;
  const std::uint32_t number = refit.segment("layers.1.mlp.experts.1.up_proj.weight");
  refit.executed[number].rows = 63;  // its last row is missing
  const auto findings = found_by_alone(refit, Check::coverage);
  const plan::Segment& segment = refit.plan.segments[number];
  const plan::Destination& scale = refit.plan.destinations[refit.destination(kW13Scale)];
  const std::uint64_t stored = plan::stored_row(refit.plan, segment, 63);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].tensor == kW13);
  CHECK(findings[0].index == 128 * 128 + stored * 128);
  CHECK(findings[0].count == 128);
  CHECK(findings[0].got == "never written");
  CHECK(findings[1].tensor == kW13Scale);
  CHECK(findings[1].index == scale.matrix_bytes + plan::scale_offset(scale, stored, 0));
  CHECK(findings[1].count == 4);

  const Result canonical = verify::check_executed(refit.plan, refit.executed, true, refit.pool);
  REQUIRE(canonical.findings.size() == 2);
  CHECK(canonical.findings[0].index == 128 * 128 + 127 * 128);
  CHECK(canonical.findings[0].count == 128);
  CHECK(canonical.findings[1].index == (128 + 127) * 4);
  CHECK(canonical.findings[1].count == 4);
}

TEST_CASE("Padding that nobody zeroed is missing in the stored order alone") {
  Refit refit;
  REQUIRE(refit.plan.segments.back().op == Op::zero);
  refit.executed.pop_back();
  const auto findings = found_by_alone(refit, Check::coverage);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].tensor == kGateUpScale);
  CHECK(findings[0].count == (256 - 130) * 8);
  // Row 160, the 32nd of the second tile row, has its first byte before row 130.
  CHECK(findings[0].index == 128 * 8 + 4);
  CHECK(verify::check_executed(refit.plan, refit.executed, true, refit.pool).mismatches == 0);
}

TEST_CASE("Rows written twice are caught by coverage alone") {
  Refit refit;
  const std::uint32_t number = refit.segment("layers.2.mlp.experts.0.down_proj.weight");
  refit.executed.push_back({.segment = number, .row_begin = 5, .rows = 2});
  const auto findings = found_by_alone(refit, Check::coverage);
  const plan::Segment& segment = refit.plan.segments[number];
  const plan::Destination& scale = refit.plan.destinations[refit.destination(kW2Scale)];
  const auto stored = [&](std::uint64_t r) { return plan::stored_row(refit.plan, segment, r); };
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].tensor == "layers.2.mlp.experts.w2_weight");
  CHECK(findings[0].index == std::min(stored(5), stored(6)) * 64);
  CHECK(findings[0].count == 2 * 64);
  CHECK(findings[0].got == "written again");
  CHECK(findings[1].tensor == kW2Scale);
  // Two columns of scales and two of padding belong to a row.
  CHECK(findings[1].count == 2 * 4);
  CHECK(findings[1].index ==
        std::min(plan::scale_offset(scale, stored(5), 0), plan::scale_offset(scale, stored(6), 0)));
  const Result canonical = verify::check_executed(refit.plan, refit.executed, true, refit.pool);
  REQUIRE(canonical.findings.size() == 2);
  CHECK(canonical.findings[0].index == 5 * 64);
  CHECK(canonical.findings[1].index == 5 * 2);
  CHECK(canonical.findings[1].count == 2 * 2);
}

TEST_CASE("Records of rows or segments that the plan does not have are found") {
  Refit refit;
  refit.executed.push_back({.segment = 0, .row_begin = 32, .rows = 2});
  refit.executed.push_back({.segment = 1000, .row_begin = 0, .rows = 1});
  const Result result = verify::check_executed(refit.plan, refit.executed, false, refit.pool);
  REQUIRE(result.findings.size() == 2);
  CHECK(result.findings[0].tensor == "embed");
  CHECK(result.findings[0].got == "2 rows from 32 on");
  CHECK(result.findings[1].tensor == "segment 1000");
}

TEST_CASE("A plan whose segments overlap or overrun their parameter is found") {
  Refit refit;
  plan::Segment& v = refit.plan.segments[refit.segment("layers.0.attn.v_proj.weight")];
  v.row_begin += 1;  // behind the end by one row of 128 bytes, and the row before is missing
  const Result result = verify::check_executed(refit.plan, refit.executed, false, refit.pool);
  REQUIRE(result.findings.size() == 1);
  CHECK(result.findings[0].tensor == "layers.0.attn.qkv_proj.weight");
  CHECK(result.findings[0].index == 96 * 128);
  CHECK(result.findings[0].count == 2 * 128);
  CHECK(result.findings[0].what ==
        "128 bytes never written (first at 12288), 128 bytes written behind the end (first at 16384)");
}

TEST_CASE("A touched guard is caught by coverage alone, with its place") {
  Refit refit;
  const auto& destinations = refit.plan.destinations;
  const plan::Destination& embed = destinations[0];
  const plan::Destination& last = destinations.back();
  const std::uint64_t end = last.offset + last.spec.bytes();
  const std::array places = {std::uint64_t{0}, embed.offset - 1, embed.offset + embed.spec.bytes(), end,
                             refit.plan.destination_arena_bytes - 1};
  const std::uint64_t at = places[GENERATE(range(std::size_t{0}, std::size_t{5}))];
  CAPTURE(at);
  refit.change([at](std::span<std::byte> arena) { arena[at] ^= std::byte{2}; });
  const auto findings = found_by_alone(refit, Check::coverage);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].count == 1);
  if (at < embed.offset) {
    CHECK(findings[0].tensor == "embed");
    CHECK(findings[0].index == at);
    CHECK(findings[0].what ==
          "the guard before embed was written to, at byte " + std::to_string(at) + " of the arena");
  } else if (at < end) {
    CHECK(findings[0].tensor == "embed");
    CHECK(findings[0].index == embed.spec.bytes());
  } else {
    CHECK(findings[0].tensor == last.spec.name);
    CHECK(findings[0].index == at - last.offset);
  }
}

TEST_CASE("Guards surround tensors of any order, and tensors that overlap are refused") {
  std::vector<verify::Extent> extents = {{"b", 20, 10}, {"a", 4, 8}, {"empty", 16, 0}};
  Buffer arena(40);
  ThreadPool pool(1);
  verify::fill_guards(extents, arena);
  verify::poison(extents, arena, std::byte{7}, pool);
  Result clean = verify::check_guards(extents, arena);
  CHECK(clean.mismatches == 0);
  CHECK(clean.bytes == 22);
  for (std::size_t i = 0; i < arena.size(); ++i) {
    CAPTURE(i);
    const bool inside = (i >= 4 && i < 12) || (i >= 20 && i < 30);
    arena[i] ^= std::byte{1};
    CHECK((verify::check_guards(extents, arena).mismatches == 0) == inside);
    arena[i] ^= std::byte{1};
  }
  extents.push_back({"c", 29, 1});
  CHECK_THROWS_AS(verify::fill_guards(extents, arena), Error);
}

TEST_CASE("Written counts bytes across the borders of its words") {
  const auto begin =
      GENERATE(std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{63}, std::uint64_t{64}, std::uint64_t{65});
  const auto bytes = GENERATE(std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{31}, std::uint64_t{63},
                              std::uint64_t{64}, std::uint64_t{65}, std::uint64_t{127}, std::uint64_t{129});
  CAPTURE(begin, bytes);
  verify::Written written(193);
  written.mark(begin, bytes);
  CHECK(written.again().count == 0);
  const std::uint64_t inside = std::min<std::uint64_t>(bytes, 193 - begin);
  CHECK(written.outside().count == bytes - inside);
  CHECK(written.missing().count == 193 - inside);
  written.mark(0, 193);
  CHECK(written.missing().count == 0);
  CHECK(written.again().count == inside);
  if (inside > 0) CHECK(written.again().first == begin);
}

// --- results ---

TEST_CASE("Checks have names that parse back") {
  for (const Check check : verify::kChecks) CHECK(verify::parse_check(verify::name_of(check)) == check);
  CHECK_FALSE(verify::parse_check("layouts").has_value());
}

TEST_CASE("Results keep the first findings and count all") {
  Result result;
  for (std::uint64_t i = 0; i < 70; ++i) {
    result.add({.tensor = std::to_string(i), .index = 0, .expected = "", .got = "", .count = 2, .what = ""});
  }
  Result other = result;
  other.bytes = 5;
  result.merge(other);
  CHECK(result.mismatches == 280);
  CHECK(result.bytes == 5);
  REQUIRE(result.findings.size() == Result::kMaxFindings);
  CHECK(result.findings[70].tensor == "0");
  verify::Verdict verdict;
  CHECK(verdict.passed());
  verify::Verdict failed;
  failed[Check::layout] = result;
  verdict.merge(failed);
  CHECK_FALSE(verdict.passed());
  CHECK(verdict[Check::layout].mismatches == 280);
  CHECK(verdict[Check::wire].mismatches == 0);
}
