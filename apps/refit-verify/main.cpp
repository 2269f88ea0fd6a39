// refit-verify: runs refits to prove every byte, plants faults to prove the proof, and audits files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "common/cli.hpp"
#include "common/generator_role.hpp"
#include "refit/base/error.hpp"

int main(int argc, char** argv) {
  using namespace refit::apps;
  CLI::App app(
      "Proves that a refit moves every byte right: four separate equalities, and faults that must be found.\n"
      "Compares checkpoints, their quantized forms and dumps of engines, and says what went wrong.",
      "refit-verify");
  app.set_version_flag("--version", version_line("refit-verify"));
  bool generator = false;
  add_generator_role(app, generator);
  SelfOptions self;
  MutantsOptions mutants;
  CLI::App* const self_command = add_self(app, self);
  CLI::App* const mutants_command = add_mutants(app, mutants);
  FilesOptions files;
  QuantizedOptions quantized;
  EngineOptions engine;
  CLI::App* const files_command = add_files(app, files);
  CLI::App* const quantized_command = add_quantized(app, quantized);
  CLI::App* const engine_command = add_engine(app, engine);
  app.require_subcommand(0, 1);
  app.footer(
      "Examples:\n"
      "  refit-verify self --scenario qwen3-30b\n"
      "  refit-verify self --scenario moonlight-16b --control router_bias=bf16\n"
      "  refit-verify mutants\n"
      "  refit-verify mutants --without layout\n"
      "  refit-verify files A.safetensors B.safetensors\n"
      "  refit-verify quantized BF16_DIR MXFP8_DIR\n"
      "  refit-verify engine BF16_DIR dump.safetensors --model BF16_DIR --layout flashinfer-trtllm\n\n"
      "Exit codes: 0 all equal (mutants: all killed), 1 a difference (a mutant survived), 2 bad usage or "
      "input,\n"
      "3 failed while running.");
  return run_app(app, argc, argv, [&] {
    if (generator) return run_generator_role();
    if (self_command->parsed()) return run_self(self);
    if (mutants_command->parsed()) return run_mutants(mutants);
    if (files_command->parsed()) return run_files(files);
    if (quantized_command->parsed()) return run_quantized(quantized);
    if (engine_command->parsed()) return run_engine(engine);
    refit::fail_input("say what to verify: self, mutants, files, quantized or engine");
  });
}
