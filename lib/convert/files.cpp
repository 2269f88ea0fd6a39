// config.json gets the quantization_config that vLLM's ModelOptMxFp8Config reads (vLLM 00155cde, modelopt.py,
// ModelOptQuantConfigBase.from_config: quant_method, quant_algo and ignore, not nested).
#include "convert/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/file.hpp"
#include "base/json.hpp"
#include "checkpoint/file_names.hpp"
#include "refit/base/error.hpp"

namespace refit::convert {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfig = "config.json";
/// ModelOpt's other place for quantization_config; what it says would not hold for the result.
constexpr std::string_view kModelOptConfig = "hf_quant_config.json";

/// Without links, as far as the path exists.
fs::path resolved(const std::string& path) {
  std::error_code error;
  fs::path result = fs::weakly_canonical(path, error);
  if (error) fail_input(fmt::format("{}: {}", path, error.message()));
  return result.has_filename() ? result : result.parent_path();  // "out/"
}

bool is_in(const fs::path& path, const fs::path& directory) {
  const auto ends = std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
  return ends.first == directory.end();
}

bool is_weights(std::string_view name) {
  return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
}

bool holds_mxfp8(const Conversion& conversion) {
  return conversion.count(Op::quantize) + conversion.count(Op::carry) > 0;
}

/// The same keys in the same order, with what the conversion changes.
std::string changed_config(const std::string& path, const Conversion& conversion) {
  (void)read_json_file(path);  // strictly; below only for the order of the keys
  std::ifstream file(path);
  OrderedJson config = OrderedJson::parse(file);
  if (!config.is_object()) fail_input(fmt::format("{}: is not a JSON object", path));
  if (holds_mxfp8(conversion)) {
    config["quantization_config"] = {
        {"quant_method", "modelopt"}, {"quant_algo", "MXFP8"}, {"ignore", conversion.kept_modules}};
  } else if (conversion.count(Op::dequantize) > 0) {
    config.erase("quantization_config");
  }
  if (conversion.count(Op::cast) + conversion.count(Op::dequantize) > 0) {
    for (const char* key : {"torch_dtype", "dtype"}) {
      if (config.contains(key)) config[key] = "bfloat16";
    }
  }
  return config.dump(2) + "\n";
}

}  // namespace

void check_destination(const checkpoint::Checkpoint& source, const Job& job) {
  if (job.destination.empty()) fail_input("the destination is a path without a name");
  const fs::path destination = resolved(job.destination);
  std::vector<fs::path> sources;
  if (source.directory()) sources.push_back(resolved(*source.directory()));
  for (const auto& shard : source.shards()) sources.push_back(resolved(shard.path()));
  for (const fs::path& path : sources) {
    if (path == destination) {
      fail_input(
          fmt::format("{} cannot be converted to {}: that is where it is", job.source, job.destination));
    }
    if (is_in(path, destination)) {
      fail_input(fmt::format("{} cannot be converted to {}, which holds it", job.source, job.destination));
    }
  }
  std::error_code error;
  const fs::file_status there = fs::status(destination, error);  // what cannot be looked at is refused below
  const bool is_directory = fs::is_directory(there);
  if (!source.directory() && (is_directory || !fs::path(job.destination).has_filename())) {
    fail_input(fmt::format("{} is a {}, and {} is one file: give the file that it is to become",
                           job.destination, is_directory ? "directory" : "directory's name", job.source));
  }
  if (source.directory() && fs::exists(there) && !is_directory) {
    fail_input(fmt::format("{} is not a directory, and {} is one: give the directory that it is to become",
                           job.destination, job.source));
  }
  if (!job.overwrite && is_there(destination.string())) {
    fail_input(fmt::format("{} exists already; --force replaces it", job.destination));
  }
}

std::vector<fs::directory_entry> list_files(const checkpoint::Checkpoint& source) {
  std::vector<fs::directory_entry> entries;
  if (!source.directory()) return entries;
  std::error_code error;
  for (fs::directory_iterator item(*source.directory(), error), end; !error && item != end;
       item.increment(error)) {
    entries.push_back(*item);
  }
  if (error) {
    fail_input(fmt::format("{}: cannot list the directory: {}", *source.directory(), error.message()));
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

void add_files(const std::vector<fs::directory_entry>& files, const Conversion& conversion,
               checkpoint::Writer& writer, std::vector<std::string>& notes) {
  const bool changes_config =
      holds_mxfp8(conversion) || conversion.count(Op::dequantize) > 0 || conversion.count(Op::cast) > 0;
  for (const fs::directory_entry& entry : files) {
    std::error_code error;
    const std::string name = entry.path().filename().string(), path = entry.path().string();
    if (is_weights(name)) continue;
    const bool is_file = entry.is_regular_file(error);
    if (!checkpoint::is_checkpoint_file(name)) {
      notes.push_back(fmt::format("{} was not copied: a checkpoint has no such file", path));
    } else if (error) {
      fail_input(fmt::format("{}: cannot be copied: {}", path, error.message()));
    } else if (!is_file) {
      notes.push_back(fmt::format("{} is not a file and was not copied", path));
    } else if (name == kModelOptConfig) {
      notes.push_back(fmt::format("{} was not copied: config.json says what the result is", path));
    } else if (name == kConfig && changes_config) {
      writer.add_text(name, changed_config(path, conversion));
    } else {
      writer.add_copy(name, path);
    }
  }
}

}  // namespace refit::convert
