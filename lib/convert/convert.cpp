// The whole of a conversion in order: everything that can be refused is refused before the first byte is
// written.
#include "refit/convert/convert.hpp"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "convert/files.hpp"
#include "refit/base/error.hpp"

namespace refit::convert {
namespace {

/// The model that config.json beside the source describes. A selection by names needs none.
std::optional<model::Inventory> model_of(const checkpoint::Checkpoint& source, const Options& options,
                                         std::vector<std::string>& warnings) {
  if (!source.directory()) return std::nullopt;
  const std::filesystem::path config = std::filesystem::path(*source.directory()) / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(config, ignored)) return std::nullopt;
  try {
    return model::load_inventory(config.string());
  } catch (const Error& error) {
    const bool needed = options.format == Format::mxfp8 && options.select.empty();
    if (needed || options.tp_size > 1) {
      throw Error(error.kind(),
                  fmt::format("{}; --select PATTERN names what to quantize in a model that is not known",
                              error.what()));
    }
    warnings.push_back(error.what());
    return std::nullopt;
  }
}

/// What readers of the file alone can know of it.
std::map<std::string, std::string> metadata_of(const checkpoint::Checkpoint& source, const Job& job,
                                               const Conversion& conversion) {
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  if (!source.shards().empty()) metadata = source.shards().front().metadata();
  metadata["refit.format"] = name_of(job.options.format);
  metadata["refit.layout"] = name_of(job.options.layout);
  if (conversion.count(Op::quantize) > 0)
    metadata["refit.rounding"] = quant::name_of(conversion.quant.rounding);
  if (job.options.tp_size > 1) {
    metadata["refit.tp"] = fmt::format("{}/{}", job.options.tp_rank, job.options.tp_size);
  }
  return metadata;
}

}  // namespace

Report convert(const Job& job, const Hooks& hooks) {
  const auto begin = std::chrono::steady_clock::now();
  const auto source = checkpoint::Checkpoint::open(job.source);
  check_destination(source, job);

  Report report{.job = job, .conversion = {}, .tensors_in = source.tensors().size()};
  std::vector<std::string> warnings;
  const auto model = model_of(source, job.options, warnings);
  report.conversion = conversion_of(source, model ? &*model : nullptr, job.options);
  Conversion& conversion = report.conversion;
  conversion.warnings.insert(conversion.warnings.begin(), warnings.begin(), warnings.end());

  const checkpoint::Writer::Options options = {.overwrite = job.overwrite,
                                               .shard_bytes = job.shard_bytes,
                                               .metadata = metadata_of(source, job, conversion)};
  auto writer = source.directory()
                    ? checkpoint::Writer::directory(job.destination, conversion.outputs, options)
                    : checkpoint::Writer::file(job.destination, conversion.outputs, options);
  ThreadPool pool(job.threads);
  execute(conversion, source, writer, pool, hooks);
  if (source.directory()) add_files(source, conversion, writer, conversion.notes);
  if (hooks.stop && hooks.stop()) fail_runtime("interrupted");
  writer.commit();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace refit::convert
