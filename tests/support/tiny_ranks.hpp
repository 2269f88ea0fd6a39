// Refits of a tiny model between ranks that are threads, and what their verdicts say.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "refit/ranks/ranks.hpp"
#include "support/tiny_model.hpp"

namespace refit::test {

/// The tiny model with experts wide enough for four ranks' 128-row layouts.
inline std::string wide_config() {
  std::string text = kTinyConfig;
  const std::string narrow = "\"moe_intermediate_size\": 192";
  text.replace(text.find(narrow), narrow.size(), "\"moe_intermediate_size\": 256");
  return text;
}

inline ranks::Spec tiny_ranks(const std::string& train, const std::string& gen, const std::string& control,
                              const std::string& treatment) {
  ranks::Spec spec;
  spec.bench.config_json = wide_config();
  spec.bench.config_place = "test config";
  spec.bench.control.buffer_size = spec.bench.treatment.buffer_size = 256u << 10;
  plan::set_switches(spec.bench.control, control);
  plan::set_switches(spec.bench.treatment, treatment);
  spec.bench.steps = 2;
  spec.bench.warmup = 0;
  spec.bench.timeout_s = 20;
  spec.bench.verify = run::VerifyWhen::every;
  spec.bench.measure_copy = false;
  spec.trainer = reshard::parse_parallelism(train, reshard::Side::trainer);
  spec.generator = reshard::parse_parallelism(gen, reshard::Side::generator);
  if (spec.trainer.fsdp > 1) spec.form = reshard::TrainerForm::hf;
  return spec;
}

/// What a rank's exchange goes through.
using Wrap = std::function<std::unique_ptr<transport::Exchange>(transport::Exchange&, std::uint32_t rank)>;

/// Rank 0's result.
inline ranks::Result bench_ranks(const ranks::Spec& spec, const run::MakeBackend& make_backend,
                                 const Wrap& wrap = {}) {
  ranks::Result result;
  transport::run_thread_ranks(spec.processes(), [&](transport::ThreadRank& rank) {
    std::unique_ptr<transport::Exchange> wrapped;
    if (wrap) wrapped = wrap(*rank.exchange, rank.group->rank());
    transport::Exchange& exchange = wrapped ? *wrapped : *rank.exchange;
    ranks::Result own = ranks::run_bench(spec, *rank.group, exchange, make_backend);
    if (rank.group->rank() == 0) result = std::move(own);
  });
  return result;
}

inline std::string complaints(const run::ArmResult& arm) {
  std::string text;
  for (const verify::Check check : verify::kChecks) {
    for (const verify::Finding& finding : arm.verdict[check].findings) {
      text += std::string(verify::name_of(check)) + ": " + finding.tensor + " " + finding.what + "\n";
    }
  }
  return text;
}

inline constexpr const char* kStaged = "pipeline=staged,prequantize=off";
inline constexpr const char* kDirect = "pipeline=direct,prequantize=on";

}  // namespace refit::test
