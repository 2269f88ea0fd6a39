// The command line of refit-plan.
#include "options.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "common/cli.hpp"
#include "common/ranks_options.hpp"
#include "common/refit_options.hpp"
#include "refit/base/error.hpp"

namespace refit::apps {
namespace {

constexpr std::uint32_t kMostRanks = 65536;

void add_bandwidth_option(CLI::App& app, const std::string& name, std::optional<double>& bandwidth,
                          const std::string& description) {
  app.add_option_function<double>(
         name,
         [&bandwidth, name](double value) {
           if (!std::isfinite(value) || value <= 0) {
             fail_input(fmt::format("{} takes a number of GB/s above 0, not {}", name, value));
           }
           bandwidth = value * 1e9;
         },
         description)
      ->type_name("GB/s");
}

void add_number_option(CLI::App& app, const std::string& name, std::optional<std::uint32_t>& number,
                       const std::string& description) {
  app.add_option_function<std::uint32_t>(
         name, [&number](std::uint32_t value) { number = value; }, description)
      ->check(CLI::Range(0u, kMostRanks).description(""))
      ->type_name("N");
}

void add_text_option(CLI::App& app, const std::string& name, std::optional<std::string>& text,
                     const std::string& description, const std::string& type) {
  app.add_option_function<std::string>(
         name, [&text](const std::string& value) { text = value; }, description)
      ->type_name(type);
}

/// A scenario's name or file, unless it is a directory or called as Hugging Face calls a configuration.
bool is_model(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ||
         std::filesystem::path(path).filename() == "config.json";
}

}  // namespace

void add_plan_options(CLI::App& app, PlanOptions& options) {
  app.set_version_flag("--version", version_line(app.get_name()));
  app.add_option("MODEL", options.model, "A scenario by name or file, a config.json or the directory of one")
      ->required()
      ->type_name("SCENARIO|DIR|config.json");
  add_ranks_options(app, options.ranks);
  app.add_option("--recipe", options.recipe, "What becomes MXFP8")
      ->type_name("routed-experts|mlp|all-linear|none");
  add_text_option(app, "--ignore", options.ignore, "Tensors whose names hold one of these words stay BF16",
                  "WORD,..");
  app.add_option("--prequantize", options.prequantize, "Quantize on the trainer where its blocks are whole")
      ->capture_default_str()
      ->check(CLI::IsMember({"on", "off"}).description(""))
      ->type_name("on|off");
  add_bytes_option(app, "--round-size", options.round_bytes,
                   "Most that a rank sends or receives in one round [256MiB]");
  add_number_option(app, "--gpus-per-node", options.gpus_per_node,
                    "Ranks of one host, by number; 0: not known [the scenario's, else 8]");
  add_number_option(app, "--rank", options.rank, "Show to whom this rank sends and from whom it receives");
  app.add_option("--explain", options.explain, "Show every move of this tensor of the checkpoint")
      ->type_name("TENSOR");
  app.add_option("--json", options.json,
                 "Write the plan as JSON; - is standard output, and the text goes to stderr")
      ->type_name("FILE|-");
  add_bandwidth_option(app, "--nvlink-gbps", options.bandwidths.host,
                       "Between ranks of a host, each way, for the floor");
  add_bandwidth_option(app, "--network-gbps", options.bandwidths.network, "Between hosts, a rank, each way");
  add_bandwidth_option(app, "--copy-gbps", options.bandwidths.copy, "Of a rank's memory, read and written");
  app.add_flag("--what-if", options.what_if,
               "Show which single change would save most on --platform, in place of the plan");
  app.add_option("--platform", options.platform,
                 "Hardware of --what-if: h100, h200, b200, gb200, .. or a file")
      ->type_name("NAME|FILE");
  app.add_option("--stack", options.stack, "Software of --what-if: nemo-rl, refit or a file")
      ->capture_default_str()
      ->type_name("NAME|FILE");
  app.add_option("--arm", options.arm, "Which of the scenario's arms --what-if changes")
      ->capture_default_str()
      ->check(CLI::IsMember({"control", "treatment"}).description(""))
      ->type_name("control|treatment");
  app.add_flag("--quiet", options.quiet, "No text where there is JSON");
  app.footer(
      "Examples:\n"
      "  refit-plan qwen3-235b\n"
      "  refit-plan ~/models/DeepSeek-V3 --train tp=2,pp=8,ep=32 --gen tp=16,dp=16\n"
      "  refit-plan qwen3-30b --train fsdp=16 --gen tp=2,dp=8,ep=16 --rank 3\n"
      "  refit-plan qwen3-30b --train tp=2,ep=8 --gen tp=4,dp=2 --explain "
      "model.layers.0.self_attn.q_proj.weight\n"
      "  refit-plan qwen3-30b --what-if --platform b200\n"
      "Exit codes: 0 fine, 2 bad usage or input, 3 failed while running.");
}

scenario::Scenario scenario_of(const PlanOptions& options) {
  RefitOptions refit;
  (is_model(options.model) ? refit.model : refit.scenario) = options.model;
  refit.recipe = options.recipe;
  refit.ignore = options.ignore;
  return chosen_scenario(refit);
}

}  // namespace refit::apps
