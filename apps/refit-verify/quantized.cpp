// refit-verify quantized: is a checkpoint the MXFP8 quantization of another, and by which rounding modes.
#include "refit/audit/quantized.hpp"

#include "commands.hpp"
#include "refit/checkpoint/checkpoint.hpp"

namespace refit::apps {

CLI::App* add_quantized(CLI::App& app, QuantizedOptions& options) {
  CLI::App* const command = app.add_subcommand(
      "quantized",
      "Is DST the MXFP8 quantization of SRC, and by which rounding modes; how large the errors are");
  command->add_option("src", options.source, "BF16, FP16 or FP32: a .safetensors file or a directory")
      ->required()
      ->type_name("SRC");
  command->add_option("dst", options.quantized, "Its F8_E4M3 form, scales beside the values")
      ->required()
      ->type_name("DST");
  add_report_options(*command, options.report);
  return command;
}

int run_quantized(const QuantizedOptions& options) {
  return report_audit(options.report, {options.source, options.quantized}, [&](ThreadPool& pool) {
    const auto source = checkpoint::Checkpoint::open(options.source);
    const auto quantized = checkpoint::Checkpoint::open(options.quantized);
    audit::Report report;
    checkpoint::read_unchanged({&source, &quantized},
                               [&] { report = audit::audit_quantized(source, quantized, pool); });
    return report;
  });
}

}  // namespace refit::apps
