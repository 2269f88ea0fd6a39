// refit-convert: checkpoint files from one format and layout to another.
#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <optional>

#include "common/backends.hpp"
#include "common/cli.hpp"
#include "common/output_file.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"
#include "refit/base/printable.hpp"
#include "refit/convert/convert.hpp"
#include "refit/device/row_quantizer.hpp"

namespace refit::apps {
namespace {

std::atomic<std::time_t> interrupted_at = 0;  ///< seconds of the monotonic clock; 0 is never
static_assert(std::atomic<std::time_t>::is_always_lock_free, "a signal handler sets it");

/// Ends the conversion between two pieces of work. A signal within two seconds of the first is the same wish:
/// `timeout` and wrappers pass on what the terminal's whole group got already. A later one, where the
/// conversion waits for a disk that does not answer, ends the program at once.
void on_signal(int signal) {
  struct timespec now {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  std::time_t first = 0;
  if (interrupted_at.compare_exchange_strong(first, now.tv_sec) || now.tv_sec - first < 2) return;
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

/// A signal that is ignored (nohup) stays so.
void stop_on(int signal) {
  struct sigaction action {};
  if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) return;
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, nullptr);
}

std::string summary(const convert::Report& report) {
  const convert::Conversion& conversion = report.conversion;
  std::string text = fmt::format("{}: {} tensors", report.job.destination, conversion.outputs.size());
  const auto add = [&](convert::Op op, const std::string& what) {
    if (conversion.count(op) > 0) text += fmt::format(", {} {}", conversion.count(op), what);
  };
  add(convert::Op::quantize, fmt::format("quantized ({})", quant::name_of(conversion.quant.rounding)));
  add(convert::Op::carry, "laid out");
  add(convert::Op::dequantize, "dequantized");
  add(convert::Op::cast, "cast to BF16");
  add(convert::Op::copy, "copied");
  text += fmt::format("; {} read, {} written, {:.2f} s\n", format_bytes(conversion.source_bytes),
                      format_bytes(conversion.output_bytes()), report.seconds);
  for (const std::string& note : conversion.notes) text += fmt::format("note: {}\n", printable(note));
  return text;
}

int convert_files(const ConvertOptions& options) {
  convert::Job job = job_of(options);
  if (options.json) require_apart_from_checkpoints("--json", *options.json, {job.source, job.destination});
  std::optional<OutputFile> json;
  if (options.json) json.emplace(*options.json);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGXCPU}) stop_on(signal);
  convert::Hooks hooks;
  hooks.stop = [] { return interrupted_at != 0; };
  std::optional<device::RowQuantizer> gpu;
  const device::Choice backend = backend_choice(options.backend, "auto");
  if (backend.kind != device::Kind::cpu) {
    gpu.emplace(make_backend(backend));
    job.quantized_by = gpu->device();
    hooks.quantize = [&](std::span<const quant::Row> rows, std::size_t k, const quant::Options& what) {
      return gpu->quantize(rows, k, what);
    };
  }
  convert::Report report;
  {
    ByteBar bar(!options.quiet);
    hooks.progress = [&](std::uint64_t done, std::uint64_t total) { bar.show(done, total); };
    report = convert::convert(job, hooks, [&](const convert::Report& made) {
      if (json) json->prepare(convert::to_json(made));
    });
  }
  for (const std::string& warning : report.conversion.warnings) {
    write_stderr(fmt::format("refit-convert: warning: {}\n", printable(warning)));
  }
  try {
    if (json) json->publish();
    if (options.quiet) return 0;
    if (json && json->is_stdout()) {
      write_stderr(summary(report));
    } else {
      write_stdout(summary(report));
    }
  } catch (const Error& error) {
    throw Error(error.kind(),
                fmt::format("{} was written, but its report was not: {}", job.destination, error.what()));
  }
  return 0;
}

}  // namespace
}  // namespace refit::apps

int main(int argc, char** argv) {
  using namespace refit::apps;
  CLI::App app("Converts checkpoint files: to MXFP8 or BF16, and into the layout of an engine.",
               "refit-convert");
  ConvertOptions options;
  add_convert_options(app, options);
  return run_app(app, argc, argv, [&] { return convert_files(options); });
}
