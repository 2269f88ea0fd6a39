// Adding the options, and reading them.
#include "common/ranks_options.hpp"

#include <fmt/format.h>

#include "common/cli.hpp"
#include "refit/base/error.hpp"
#include "refit/reshard/report.hpp"

namespace refit::apps {

void add_ranks_options(CLI::App& app, RanksOptions& options) {
  const auto add_side = [&](const char* name, std::optional<std::string>& text, const char* description) {
    app.add_option_function<std::string>(
           name, [&text](const std::string& value) { text = value; }, description)
        ->type_name("K=N,..");
  };
  add_side("--train", options.train, "Ranks of the trainer: tp, pp, dp, ep, etp, fsdp, pp-layers");
  add_side("--gen", options.gen, "Ranks of the generator: tp, pp, dp, ep, etp, pp-layers");
  app.add_option(
         "--trainer-form", options.trainer_form,
         "Whose tensors the trainer keeps: Megatron-Core's or the checkpoint's [megatron; with fsdp hf]")
      ->check(CLI::IsMember({"megatron", "hf"}).description(""))
      ->type_name("megatron|hf");
  app.add_flag("--separate", options.separate,
               "Trainer and generator ranks are different processes on different hosts");
}

void add_simulation_options(CLI::App& app, RanksOptions& options) {
  const auto add = [&](const char* name, std::optional<std::uint32_t>& number, const char* description) {
    app.add_option_function<std::uint32_t>(
           name, [&number](const std::uint32_t& value) { number = value; }, description)
        ->type_name("N");
  };
  add("--simulate-ranks", options.simulate_ranks,
      "One rank of so many, in this process alone; what the others send is made here before each refit");
  add("--simulate-rank", options.simulate_rank, "Which of them [the first that generates]");
}

reshard::Parallelism parallelism_option(const char* option, const std::string& text, reshard::Side side) {
  return from_option(option, [&] { return reshard::parse_parallelism(text, side); });
}

reshard::TrainerForm trainer_form_of(const RanksOptions& options, const reshard::Parallelism& trainer) {
  return reshard::parse_trainer_form(options.trainer_form)
      .value_or(trainer.fsdp > 1 ? reshard::TrainerForm::hf : reshard::TrainerForm::megatron);
}

namespace {

/// Which rank plays, checked against how many there are.
std::uint32_t simulated_rank(const RanksOptions& options, const scenario::Ranks& ranks) {
  const std::uint32_t processes = ranks.processes(), trainers = ranks.trainer.ranks();
  if (*options.simulate_ranks != processes) {
    fail_input(fmt::format("--simulate-ranks {}: trainer {} and generator {}{} take {} ranks",
                           *options.simulate_ranks, reshard::to_string(ranks.trainer),
                           reshard::to_string(ranks.generator),
                           ranks.colocated ? "" : ", on ranks of their own,", processes));
  }
  const std::uint32_t rank = options.simulate_rank.value_or(ranks.colocated ? 0 : trainers);
  if (rank >= processes) {
    fail_input(fmt::format("--simulate-rank {}: there are {} ranks, counted from 0", rank, processes));
  }
  return rank;
}

}  // namespace

std::optional<scenario::Ranks> chosen_ranks(const RanksOptions& options, const scenario::Scenario& scenario) {
  const bool simulates = options.simulate_ranks.has_value();
  if (options.simulate_rank && !simulates) {
    fail_input("--simulate-rank says which of --simulate-ranks N; say how many");
  }
  std::optional<scenario::Ranks> base = scenario.ranks;
  if (!base && simulates) base = scenario.cluster;
  if (!options.train && !options.gen && !base) {
    if (options.separate || !options.trainer_form.empty()) {
      fail_input("--separate and --trainer-form are about ranks; say which with --train and --gen");
    }
    if (simulates) {
      fail_input(fmt::format("--simulate-ranks {}: {} says of no ranks; say which with --train and --gen",
                             *options.simulate_ranks, scenario.name));
    }
    return std::nullopt;
  }
  scenario::Ranks ranks = base.value_or(scenario::Ranks{});
  if (options.train) ranks.trainer = parallelism_option("--train", *options.train, reshard::Side::trainer);
  if (options.gen) ranks.generator = parallelism_option("--gen", *options.gen, reshard::Side::generator);
  if (options.train || !options.trainer_form.empty()) ranks.form = trainer_form_of(options, ranks.trainer);
  if (options.separate) ranks.colocated = false;
  if (simulates) ranks.simulated = simulated_rank(options, ranks);
  return ranks;
}

}  // namespace refit::apps
