// The command line of refit-convert.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "common/backends.hpp"
#include "refit/convert/convert.hpp"

namespace refit::apps {

struct ConvertOptions {
  convert::Job job;
  std::string format = "mxfp8", layout = "checkpoint", rounding = "flashinfer", non_finite = "refuse";
  std::string zero_scale, recipe;  ///< empty: by layout, by model
  BackendOptions backend;
  std::optional<std::string> json;
  bool quiet = false;
};

void add_convert_options(CLI::App& app, ConvertOptions& options);
/// The job that the words stand for. Throws Error(input) that names the option for a word it does not take.
[[nodiscard]] convert::Job job_of(const ConvertOptions& options);

}  // namespace refit::apps
