// refit-verify engine: does a dump of an engine's parameters hold what a refit has to put there; if not, why.
#include "refit/audit/engine.hpp"

#include <fmt/format.h>

#include <optional>

#include "commands.hpp"
#include "common/cli.hpp"
#include "refit/base/error.hpp"
#include "refit/checkpoint/checkpoint.hpp"

namespace refit::apps {
namespace {

/// Error(input) that lists what the option takes.
template <typename Parse>
auto parsed(const char* option, const std::string& text, const char* values, const Parse& parse) {
  const auto value = parse(text);
  if (!value) fail_input(fmt::format("{}: {} is not one of {}", option, text, values));
  return *value;
}

quant::ZeroScale zero_scale_of(const std::string& text, audit::Layout layout) {
  // The TRT-LLM kernels take no byte 0.
  if (text.empty()) {
    return layout == audit::Layout::flashinfer_trtllm ? quant::ZeroScale::one : quant::ZeroScale::keep;
  }
  if (text != "keep" && text != "one")
    fail_input(fmt::format("--zero-scale: {} is not one of keep, one", text));
  return text == "one" ? quant::ZeroScale::one : quant::ZeroScale::keep;
}

audit::EngineRequest request_of(const EngineOptions& options) {
  audit::EngineRequest request;
  request.model = model::load_inventory(options.model);
  request.recipe.kind =
      options.recipe.empty()
          ? model::default_recipe(request.model)
          : parsed("--recipe", options.recipe, "routed-experts, mlp, all-linear, none", model::parse_recipe);
  request.recipe.ignore = options.ignore;
  request.engine = parsed("--engine", options.engine, "vllm, sglang", audit::parse_engine);
  request.layout =
      parsed("--layout", options.layout, "checkpoint, linear-128x4, flashinfer-trtllm", audit::parse_layout);
  request.quant.rounding = parsed("--rounding", options.rounding,
                                  "flashinfer, flashinfer-cuda, torchao-rceil, torchao-floor, torchao-even, "
                                  "torchao-ceil, vllm-floor",
                                  quant::parse_rounding);
  request.quant.zero_scale = zero_scale_of(options.zero_scale, request.layout);
  request.tp_size = options.tp_size;
  request.tp_rank = options.tp_rank;
  request.ep_size = options.ep_size;
  request.ep_rank = options.ep_rank;
  return request;
}

void add_rank_options(CLI::App& command, EngineOptions& options) {
  const auto add = [&](const char* name, std::uint32_t& value, std::uint32_t least, const char* what) {
    add_count_option(command, name, value, least, what);
  };
  add("--tp-size", options.tp_size, 1, "Ranks of tensor parallelism");
  add("--tp-rank", options.tp_rank, 0, "The rank that was dumped");
  add("--ep-size", options.ep_size, 1, "Ranks of expert parallelism; experts are not split further then");
  add("--ep-rank", options.ep_rank, 0, "The rank that was dumped");
}

}  // namespace

CLI::App* add_engine(CLI::App& app, EngineOptions& options) {
  CLI::App* const command = app.add_subcommand(
      "engine", "Does DUMP, an engine's parameters, hold what a refit of SRC puts there; if not, why");
  command
      ->add_option("src", options.source,
                   "The checkpoint that was refitted: BF16, FP16, FP32, or MXFP8 already")
      ->required()
      ->type_name("SRC");
  command->add_option("dump", options.dump, "named_parameters(), saved with safetensors")
      ->required()
      ->type_name("DUMP");
  command->add_option("--model", options.model, "The model's config.json, or a directory that has it")
      ->required()
      ->type_name("DIR|config.json");
  command->add_option("--engine", options.engine, "Whose names the dump has")
      ->capture_default_str()
      ->type_name("vllm|sglang");
  command->add_option("--layout", options.layout, "How it keeps quantized weights and scales")
      ->capture_default_str()
      ->type_name("checkpoint|linear-128x4|flashinfer-trtllm");
  command
      ->add_option("--recipe", options.recipe, "What is MXFP8 [routed-experts for MoE, mlp for dense models]")
      ->type_name("routed-experts|mlp|all-linear|none");
  command
      ->add_option("--ignore", options.ignore,
                   "Tensors whose names hold one of these words are not quantized")
      ->delimiter(',')
      ->type_name("WORD,..");
  command->add_option("--rounding", options.rounding, "The quantizer's mode")
      ->capture_default_str()
      ->type_name("MODE");
  command
      ->add_option("--zero-scale", options.zero_scale, "Scale byte 0 [one for flashinfer-trtllm, else keep]")
      ->type_name("keep|one");
  command->add_option("--previous", options.previous, "The checkpoint of the step before, for the diagnosis")
      ->type_name("SRC0");
  add_rank_options(*command, options);
  add_report_options(*command, options.report);
  return command;
}

int run_engine(const EngineOptions& options) {
  return report_audit(options.report, {options.source, options.dump, options.previous, options.model},
                      [&](ThreadPool& pool) {
                        const audit::EngineRequest request = request_of(options);
                        const auto source = checkpoint::Checkpoint::open(options.source);
                        const auto dump = checkpoint::Checkpoint::open(options.dump);
                        std::optional<checkpoint::Checkpoint> previous;
                        if (!options.previous.empty())
                          previous = checkpoint::Checkpoint::open(options.previous);
                        const checkpoint::Checkpoint* const before = previous ? &*previous : nullptr;
                        audit::Report report;
                        checkpoint::read_unchanged({&source, &dump, before}, [&] {
                          report = audit::audit_engine(request, source, dump, before, pool);
                        });
                        return report;
                      });
}

}  // namespace refit::apps
