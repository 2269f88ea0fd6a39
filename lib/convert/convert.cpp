// The whole of a conversion in order: everything that can be refused is refused before the first byte is
// written.
#include "refit/convert/convert.hpp"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/file.hpp"
#include "base/json.hpp"
#include "convert/files.hpp"
#include "refit/base/error.hpp"

namespace refit::convert {
namespace {

/// The model that config.json beside the source describes. A selection by names needs none.
std::optional<model::Inventory> model_of(const checkpoint::Checkpoint& source, const Options& options,
                                         std::vector<std::string>& warnings) {
  if (!source.directory()) return std::nullopt;
  const std::string config = (std::filesystem::path(*source.directory()) / "config.json").string();
  if (!is_there(config)) return std::nullopt;
  (void)read_json_file(config);  // one that cannot be read is an error whether or not its model is needed
  try {
    return model::load_inventory(config);
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

constexpr std::string_view kOurs = "refit.";
constexpr const char* kSliceKey = "refit.tp";

std::map<std::string, std::string> metadata_before(const checkpoint::Checkpoint& source) {
  if (source.shards().empty()) return {{"format", "pt"}};
  return source.shards().front().metadata();
}

/// A slice knows its part of the model, but config.json is still the whole model's.
void refuse_slice_of_slice(const checkpoint::Checkpoint& source, const Options& options) {
  if (options.tp_size == 1) return;
  for (const auto& shard : source.shards()) {
    const auto slice = shard.metadata().find(kSliceKey);
    if (slice == shard.metadata().end()) continue;
    fail_input(
        fmt::format("--tp-size {}: {} is a slice already (rank/size {} by its metadata); cut the whole "
                    "checkpoint",
                    options.tp_size, shard.path(), slice->second));
  }
}

/// What readers of the file alone can know of it. What an earlier conversion did is said no longer, but of
/// what the source still is: a slice, or the result of the rounding that gave its values.
std::map<std::string, std::string> metadata_of(const checkpoint::Checkpoint& source, const Job& job,
                                               const Conversion& conversion) {
  constexpr const char* rounding = "refit.rounding";
  std::map<std::string, std::string> metadata = metadata_before(source);
  const bool quantizes = conversion.count(Op::quantize) > 0;
  const bool same_values = !quantizes && conversion.count(Op::carry) > 0;
  std::erase_if(metadata, [&](const auto& item) {
    return item.first.starts_with(kOurs) && item.first != kSliceKey &&
           !(same_values && item.first == rounding);
  });
  const bool holds_mxfp8 = quantizes || same_values;
  if (holds_mxfp8 || job.options.format == Format::bf16) {
    metadata["refit.format"] = name_of(job.options.format);
  }
  if (holds_mxfp8) metadata["refit.layout"] = name_of(job.options.layout);
  if (quantizes) metadata[rounding] = quant::name_of(conversion.quant.rounding);
  if (job.options.tp_size > 1) {
    metadata[kSliceKey] = fmt::format("{}/{}", job.options.tp_rank, job.options.tp_size);
  }
  return metadata;
}

}  // namespace

Report convert(const Job& job, const Hooks& hooks, const std::function<void(const Report&)>& before_commit) {
  const auto begin = std::chrono::steady_clock::now();
  const auto source = checkpoint::Checkpoint::open(job.source);
  check_destination(source, job);
  refuse_slice_of_slice(source, job.options);

  Report report{.job = job, .conversion = {}, .tensors_in = source.tensors().size()};
  std::vector<std::string> warnings;
  const auto model = model_of(source, job.options, warnings);
  report.conversion = conversion_of(source, model ? &*model : nullptr, job.options);
  Conversion& conversion = report.conversion;
  conversion.warnings.insert(conversion.warnings.begin(), warnings.begin(), warnings.end());

  const checkpoint::Writer::Options options = {.overwrite = job.overwrite,
                                               .shard_bytes = job.shard_bytes,
                                               .metadata = metadata_of(source, job, conversion)};
  const auto files = list_files(source);
  auto writer = source.directory()
                    ? checkpoint::Writer::directory(job.destination, conversion.outputs, options)
                    : checkpoint::Writer::file(job.destination, conversion.outputs, options);
  ThreadPool pool(job.threads);
  checkpoint::read_unchanged({&source}, [&] {
    add_files(files, conversion, writer, conversion.notes);  // first: what cannot be copied costs no work
    execute(conversion, source, writer, pool, hooks);
  });
  if (hooks.stop && hooks.stop()) fail_runtime("interrupted");
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (before_commit) before_commit(report);
  writer.commit();
  return report;
}

}  // namespace refit::convert
