// Converting a checkpoint file or directory, from opening it to the rename that makes the result appear.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "refit/base/thread_pool.hpp"
#include "refit/checkpoint/checkpoint.hpp"
#include "refit/checkpoint/writer.hpp"
#include "refit/convert/conversion.hpp"

namespace refit::convert {

struct Hooks {
  /// Bytes written so far and in all; called from any thread, one at a time.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress{};
  /// Asked before each piece of work; true ends the conversion with Error(runtime) "interrupted".
  std::function<bool()> stop{};
  /// Quantizes rows, from any thread: quant::quantize_rows or what gives the same bytes. Where the options
  /// refuse non-finite elements, its false means that it met one.
  std::function<bool(std::span<const quant::Row>, std::size_t k, const quant::Options&)> quantize =
      quant::quantize_rows;
};

/// Fills `writer` with the outputs of `conversion`, a few MiB a thread at a time. Error(input) names tensor,
/// index and value of a non-finite element when quant.non_finite is refuse.
void execute(const Conversion& conversion, const checkpoint::Checkpoint& source, checkpoint::Writer& writer,
             ThreadPool& pool, const Hooks& hooks);

struct Job {
  std::string source, destination;
  Options options{};
  bool overwrite = false;
  std::uint64_t shard_bytes = 5ull << 30;
  unsigned threads = 1;
  std::string quantized_by = "cpu";  ///< for the report: where Hooks::quantize runs
};

struct Report {
  Job job;
  Conversion conversion;
  std::uint64_t tensors_in = 0;
  double seconds = 0;  ///< up to the renaming
};

/// A file becomes a file; a directory becomes a directory with an index where there are several shards, its
/// config.json with the quantization that vLLM's ModelOpt loader expects, and its other files untouched.
/// Throws Error(input) before anything is written for what conversion_of refuses, an existing destination
/// without `overwrite`, and a destination that is, holds, or would replace anything but a checkpoint. After
/// any Error the destination is as it was. `before_commit` is given the report when everything is on the disk
/// and nothing but the renaming remains, which its Error prevents.
[[nodiscard]] Report convert(const Job& job, const Hooks& hooks,
                             const std::function<void(const Report&)>& before_commit = {});

/// {"schema": "refit-convert/1", ...}, one line feed at the end.
[[nodiscard]] std::string to_json(const Report& report);

}  // namespace refit::convert
