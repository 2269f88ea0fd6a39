// Adding the options, and reading their words.
#include "options.hpp"

#include <fmt/format.h>

#include "common/cli.hpp"
#include "refit/base/error.hpp"

namespace refit::apps {
namespace {

std::string rounding_names(const char* separator) {
  std::string names;
  for (const quant::Rounding rounding : quant::kRoundings) {
    names += fmt::format("{}{}", names.empty() ? "" : separator, quant::name_of(rounding));
  }
  return names;
}

template <typename Value>
Value value_of(const std::optional<Value>& value, const char* option, const std::string& text,
               const std::string& known) {
  if (!value) fail_input(fmt::format("{}: {} is not one of {}", option, text, known));
  return *value;
}

quant::ZeroScale zero_scale_of(const ConvertOptions& options, convert::Layout layout) {
  if (options.zero_scale == "keep") return quant::ZeroScale::keep;
  if (options.zero_scale == "one") return quant::ZeroScale::one;
  return layout == convert::Layout::flashinfer_trtllm ? quant::ZeroScale::one : quant::ZeroScale::keep;
}

}  // namespace

void add_convert_options(CLI::App& app, ConvertOptions& options) {
  convert::Job& job = options.job;
  convert::Options& what = job.options;

  app.set_version_flag("--version", version_line(app.get_name()));
  app.add_option("SRC", job.source, "A .safetensors file, or a directory of shards with their index")
      ->required();
  app.add_option("DST", job.destination, "A file for a file, a directory for a directory")->required();

  app.add_option("--format", options.format, "What the weights become")
      ->capture_default_str()
      ->type_name("mxfp8|bf16");
  app.add_option("--layout", options.layout, "How values and scales are stored")
      ->capture_default_str()
      ->type_name("checkpoint|linear-128x4|flashinfer-trtllm");
  app.add_option("--rounding", options.rounding, "Whose quantizer to equal, byte for byte")
      ->capture_default_str()
      ->type_name(rounding_names("|"));
  app.add_option("--non-finite", options.non_finite,
                 "Infinite and NaN weights: stop, or what the producer makes of them")
      ->capture_default_str()
      ->check(CLI::IsMember({"refuse", "as-producer"}).description(""))
      ->type_name("refuse|as-producer");
  app.add_option("--zero-scale", options.zero_scale,
                 "Scale byte 0: keep it, or 1 with all elements zero [one for flashinfer-trtllm, else keep]")
      ->check(CLI::IsMember({"keep", "one"}).description(""))
      ->type_name("keep|one");

  app.add_option("--recipe", options.recipe,
                 "What is quantized [by config.json: routed experts, else every MLP]")
      ->type_name("routed-experts|mlp|all-linear|none");
  app.add_option("--select", what.select,
                 "Quantize the matrices with these names instead; * and ? as in a shell")
      ->type_name("PATTERN..");
  app.add_option("--ignore", what.ignore, "Leave these as they are; a plain word is a part of a name")
      ->type_name("PATTERN..");
  app.add_option("--scale-suffix", what.scale_suffix, "Of the scales' names, after the weight's")
      ->capture_default_str()
      ->type_name("TEXT");

  add_count_option(app, "--tp-size", what.tp_size, std::uint64_t{1},
                   "Cut for this many tensor-parallel ranks");
  add_count_option(app, "--tp-rank", what.tp_rank, std::uint64_t{0}, "And keep the part of this one")
      ->type_name("R");

  add_threads_option(app, job.threads, "Threads to work with [all CPUs that may be used]");
  add_backend_options(app, options.backend, "Where matrices are quantized");
  add_bytes_option(app, "--shard-size", job.shard_bytes, "Largest shard of a directory [5GiB]");
  app.add_flag("--force", job.overwrite, "Replace DST where it exists");
  app.add_option_function<std::string>(
         "--json", [&](const std::string& path) { options.json = path; },
         "Write a report as JSON; - is standard output")
      ->type_name("FILE|-");
  app.add_flag("--quiet", options.quiet, "No progress bar and no summary");

  app.footer(
      "Examples:\n"
      "  refit-convert ~/models/Qwen3-30B-A3B ~/models/Qwen3-30B-A3B-MXFP8\n"
      "  refit-convert model.safetensors model-mxfp8.safetensors --rounding torchao-rceil\n"
      "  refit-convert SRC DST --layout flashinfer-trtllm --tp-size 4 --tp-rank 0\n"
      "  refit-convert SRC DST --recipe all-linear --ignore q_proj k_proj v_proj 'model.layers.0.*'\n"
      "Exit codes: 0 converted, 2 bad usage or input, 3 failed or interrupted; then DST is as it was, "
      "unless\n"
      "the message says that it was written.");
}

convert::Job job_of(const ConvertOptions& options) {
  convert::Job job = options.job;
  convert::Options& what = job.options;
  what.format = value_of(convert::parse_format(options.format), "--format", options.format, "mxfp8, bf16");
  what.layout = value_of(convert::parse_layout(options.layout), "--layout", options.layout,
                         "checkpoint, linear-128x4, flashinfer-trtllm");
  what.quant.rounding =
      value_of(quant::parse_rounding(options.rounding), "--rounding", options.rounding, rounding_names(", "));
  what.quant.zero_scale = zero_scale_of(options, what.layout);
  what.quant.non_finite =
      options.non_finite == "refuse" ? quant::NonFinite::refuse : quant::NonFinite::as_producer;
  if (!options.recipe.empty()) {
    what.recipe = value_of(model::parse_recipe(options.recipe), "--recipe", options.recipe,
                           "routed-experts, mlp, all-linear, none");
    if (!what.select.empty())
      fail_input("--recipe and --select both say what is quantized; give one of them");
  }
  return job;
}

}  // namespace refit::apps
