// Planning and metadata of DeepSeek-V3's 45,395 tensors: what a refit pays once, and what each step pays in
// messages.
//
// Targets: manifest under 50 ms; a step's key-list messages, encoded and decoded, under 5 ms in total.
#include <benchmark/benchmark.h>

#include <string>

#include "refit/model/inventory.hpp"
#include "refit/plan/plan.hpp"
#include "refit/plan/wire.hpp"

namespace {

using namespace refit;

constexpr std::string_view deepseek_v3 = R"({
  "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "torch_dtype": "bfloat16",
  "hidden_size": 7168, "num_hidden_layers": 61, "vocab_size": 129280, "intermediate_size": 18432,
  "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "first_k_dense_replace": 3,
  "moe_layer_freq": 1, "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536,
  "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
  "num_nextn_predict_layers": 1, "topk_method": "noaux_tc", "tie_word_embeddings": false
})";
constexpr std::size_t deepseek_v3_tensors = 45'395;
constexpr std::uint64_t bucket_bytes = std::uint64_t{2} << 30;

const plan::Request& request() {
  static const plan::Request instance = [] {
    plan::Request made;
    made.model = model::parse_inventory(deepseek_v3, "DeepSeek-V3");
    return made;
  }();
  return instance;
}

const plan::Plan& deepseek_plan() {
  static const plan::Plan instance = plan::build(request());
  return instance;
}

/// Says so instead of timing another model than the label claims.
bool wrong_model(benchmark::State& state) {
  if (request().model.tensors.size() == deepseek_v3_tensors) return false;
  state.SkipWithError("the inventory does not have 45,395 tensors");
  return true;
}

void build_plan(benchmark::State& state) {
  if (wrong_model(state)) return;
  for (auto _ : state) benchmark::DoNotOptimize(plan::build(request()));
}

/// Argument: 1 with scales as keys of their own (90 thousand keys).
void fill_buckets(benchmark::State& state) {
  if (wrong_model(state)) return;
  for (auto _ : state) {
    benchmark::DoNotOptimize(plan::make_wire(deepseek_plan(), state.range(0) != 0, bucket_bytes));
  }
}

void encode_manifest(benchmark::State& state) {
  if (wrong_model(state)) return;
  const plan::Wire wire = plan::make_wire(deepseek_plan(), state.range(0) != 0, bucket_bytes);
  for (auto _ : state) benchmark::DoNotOptimize(plan::encode_manifest(deepseek_plan(), wire));
  state.counters["keys"] = static_cast<double>(wire.entries.size());
}

void check_manifest(benchmark::State& state) {
  if (wrong_model(state)) return;
  const plan::Wire wire = plan::make_wire(deepseek_plan(), state.range(0) != 0, bucket_bytes);
  const std::string manifest = plan::encode_manifest(deepseek_plan(), wire);
  for (auto _ : state) plan::check_manifest(manifest, deepseek_plan(), wire);
  state.counters["bytes"] = static_cast<double>(manifest.size());
}

/// Every message of one step, encoded by the sender and read by the receiver.
void exchange_step(benchmark::State& state, plan::Metadata metadata) {
  if (wrong_model(state)) return;
  const plan::Wire wire = plan::make_wire(deepseek_plan(), state.range(0) != 0, bucket_bytes);
  plan::KeyReader reader(wire);
  std::size_t bytes = 0;
  for (auto _ : state) {
    bytes = 0;
    reader.reset();
    for (std::size_t bucket = 0; bucket < wire.buckets.size(); ++bucket) {
      const std::string body = plan::encode_bucket(wire, bucket, metadata);
      reader.read(body, wire.buckets[bucket].used_bytes, metadata);
      bytes += body.size();
    }
    reader.finish();
  }
  state.counters["keys"] = static_cast<double>(wire.entries.size());
  state.counters["messages"] = static_cast<double>(wire.buckets.size());
  state.counters["bytes"] = static_cast<double>(bytes);
}
void key_lists(benchmark::State& state) {
  exchange_step(state, plan::Metadata::key_list);
}
void offset_maps(benchmark::State& state) {
  exchange_step(state, plan::Metadata::offset_map);
}

BENCHMARK(build_plan)->Unit(benchmark::kMillisecond);
BENCHMARK(fill_buckets)->ArgName("prequantize")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_manifest)->ArgName("prequantize")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(check_manifest)->ArgName("prequantize")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(key_lists)->ArgName("prequantize")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(offset_maps)->ArgName("prequantize")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
