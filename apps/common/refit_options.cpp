// Which refit: adding the options, and reading them.
#include "common/refit_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>

#include "common/cli.hpp"
#include "refit/base/error.hpp"

namespace refit::apps {
namespace {

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

}  // namespace

void add_refit_options(CLI::App& app, RefitOptions& options) {
  app.add_option("--scenario", options.scenario, "Scenario by name (see --list) or file")
      ->type_name("NAME|FILE");
  app.add_option("--model", options.model, "A model of your own instead: one rank, usual switches")
      ->type_name("DIR|config.json");
  app.add_option("--checkpoint", options.checkpoint,
                 "Real weights for the trainer; without --scenario and --model its config.json is the model")
      ->type_name("DIR|FILE");
  app.add_option("--control", options.control, "Switches of the control arm, over the scenario's")
      ->type_name("K=V,..");
  app.add_option("--treatment", options.treatment, "Switches of the treatment arm, over the scenario's")
      ->type_name("K=V,..");
  add_bytes_option(app, "--buffer-size", options.buffer_size, "Both ping-pong halves together, in both arms");
  app.add_option("--recipe", options.recipe, "What becomes MXFP8")
      ->type_name("routed-experts|mlp|all-linear|none");
  app.add_option_function<std::string>(
         "--ignore", [&](const std::string& text) { options.ignore = text; },
         "Tensors whose names hold one of these words stay BF16")
      ->type_name("WORD,..");
  app.add_option("--moe-layout", options.moe_layout, "How the engine wants its experts")
      ->type_name("flashinfer-trtllm|checkpoint");

  app.add_option("--layers", options.replay.layers, "Replay this many whole layers [as many as fit]")
      ->check(CLI::PositiveNumber.description(""))
      ->type_name("N");
  app.add_option("--experts", options.replay.experts,
                 "Replay this many routed experts of each layer [all that fit]")
      ->check(CLI::PositiveNumber.description(""))
      ->type_name("N");
  add_bytes_option(
      app, "--memory-budget", options.replay.memory_budget,
      "For both processes together [half of what is free, at most 7GiB; on a GPU all that is free]");

  add_backend_options(app, options.backend, "Where the weights are and who moves them");
  app.add_option("--transport", options.transport, "How memory reaches the other process")
      ->capture_default_str()
      ->type_name("auto|shm|cuda-ipc|cuda-vmm");

  add_seconds_option(app, "--timeout", options.timeout_s, "Longest wait of one process for the other [60]");
  add_count_option<std::uint64_t>(app, "--seed", options.seed, 0, "Of the weights and their updates");
  add_threads_option(app, options.replay.backend.threads, "In each process [all CPUs that may be used]");
}

scenario::Scenario chosen_scenario(const RefitOptions& options) {
  const bool from_checkpoint =
      options.scenario.empty() && options.model.empty() && !options.checkpoint.empty();
  if (options.scenario.empty() == options.model.empty() && !from_checkpoint) {
    fail_input(
        "give either --scenario NAME|FILE or --model DIR|config.json (refit-bench --list shows the "
        "scenarios)");
  }
  std::error_code ignored;
  if (from_checkpoint && std::filesystem::is_regular_file(options.checkpoint, ignored)) {
    fail_input(fmt::format(
        "--checkpoint: {} is a file and brings no config.json; say which model it is with --model",
        options.checkpoint));
  }
  scenario::Scenario scenario = !options.scenario.empty() ? scenario::find_scenario(options.scenario)
                                : from_checkpoint         ? scenario::model_scenario(options.checkpoint)
                                                          : scenario::model_scenario(options.model);
  if (!options.recipe.empty()) {
    scenario.recipe = model::parse_recipe(options.recipe);
    if (!scenario.recipe) {
      fail_input(
          fmt::format("--recipe: {} is not one of routed-experts, mlp, all-linear, none", options.recipe));
    }
  }
  if (options.ignore) scenario.ignore = words(*options.ignore);
  if (!options.moe_layout.empty()) {
    const auto layout = plan::parse_moe_layout(options.moe_layout);
    if (!layout) {
      fail_input(
          fmt::format("--moe-layout: {} is not one of flashinfer-trtllm, checkpoint", options.moe_layout));
    }
    scenario.moe_layout = *layout;
  }
  if (options.buffer_size > 0) {
    const std::string size = fmt::format("buffer_size={}", options.buffer_size);
    from_option("--buffer-size", [&] {
      scenario::override_switches(scenario.control, size);
      scenario::override_switches(scenario.treatment, size);
    });
  }
  from_option("--control", [&] { scenario::override_switches(scenario.control, options.control); });
  from_option("--treatment", [&] { scenario::override_switches(scenario.treatment, options.treatment); });
  scenario.ranks = chosen_ranks(options.ranks, scenario);
  return scenario;
}

void set_backend(RefitOptions& options, const std::string& transport) {
  device::Choice& choice = options.replay.backend;
  const unsigned threads = choice.threads;
  choice = backend_choice(options.backend, transport);
  choice.threads = threads;
  choice.timeout_s = options.timeout_s;
}

void choose_backend(RefitOptions& options, bool dry_run) {
  set_backend(options, options.transport);
  const device::Choice& choice = options.replay.backend;
  if (choice.kind == device::Kind::cpu) return;
  std::uint64_t& budget = options.replay.memory_budget;
  try {
    const std::uint64_t usable = usable_memory(choice);
    if (budget == 0) budget = usable;
  } catch (const Error&) {
    if (!dry_run) throw;
    if (budget == 0) budget = std::numeric_limits<std::uint64_t>::max();
  }
}

}  // namespace refit::apps
