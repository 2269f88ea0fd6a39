// Adding the options, and reading them.
#include "common/ranks_options.hpp"

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

reshard::Parallelism parallelism_option(const char* option, const std::string& text, reshard::Side side) {
  return from_option(option, [&] { return reshard::parse_parallelism(text, side); });
}

reshard::TrainerForm trainer_form_of(const RanksOptions& options, const reshard::Parallelism& trainer) {
  return reshard::parse_trainer_form(options.trainer_form)
      .value_or(trainer.fsdp > 1 ? reshard::TrainerForm::hf : reshard::TrainerForm::megatron);
}

std::optional<scenario::Ranks> chosen_ranks(const RanksOptions& options, const scenario::Scenario& scenario) {
  if (!options.train && !options.gen) {
    if (!scenario.ranks && (options.separate || !options.trainer_form.empty())) {
      fail_input("--separate and --trainer-form are about ranks; say which with --train and --gen");
    }
    if (!scenario.ranks) return std::nullopt;
  }
  scenario::Ranks ranks = scenario.ranks.value_or(scenario::Ranks{});
  if (options.train) ranks.trainer = parallelism_option("--train", *options.train, reshard::Side::trainer);
  if (options.gen) ranks.generator = parallelism_option("--gen", *options.gen, reshard::Side::generator);
  if (options.train || !options.trainer_form.empty()) ranks.form = trainer_form_of(options, ranks.trainer);
  if (options.separate) ranks.colocated = false;
  return ranks;
}

}  // namespace refit::apps
