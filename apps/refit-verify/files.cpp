// refit-verify files: are two checkpoints the same, byte for byte.
#include "refit/audit/files.hpp"

#include "commands.hpp"
#include "refit/checkpoint/checkpoint.hpp"

namespace refit::apps {

CLI::App* add_files(CLI::App& app, FilesOptions& options) {
  CLI::App* const command =
      app.add_subcommand("files", "Compare two checkpoints: names, dtypes, shapes and every byte");
  command->add_option("a", options.a, "What is expected: a .safetensors file or a directory")
      ->required()
      ->type_name("A");
  command->add_option("b", options.b, "What is there")->required()->type_name("B");
  command->add_option("--tensor", options.tensors, "Compare these alone")->type_name("NAME");
  add_report_options(*command, options.report);
  return command;
}

int run_files(const FilesOptions& options) {
  return report_audit(options.report, {options.a, options.b}, [&](ThreadPool& pool) {
    const auto a = checkpoint::Checkpoint::open(options.a);
    const auto b = checkpoint::Checkpoint::open(options.b);
    audit::Report report;
    checkpoint::read_unchanged({&a, &b}, [&] { report = audit::compare_files(a, b, options.tensors, pool); });
    return report;
  });
}

}  // namespace refit::apps
