// Rows of host memory quantized by a backend: for programs whose input and output are files.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "refit/device/backend.hpp"
#include "refit/quant/mxfp8.hpp"

namespace refit::device {

/// quant::quantize_rows by a backend: the rows go to its memory, are quantized there in one launch, and
/// values and scales come back. Holds as much of the backend's memory as the largest call needed.
/// Thread-safe; calls take turns.
class RowQuantizer {
 public:
  explicit RowQuantizer(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}

  /// "NVIDIA H200"; "cpu" for the host's.
  [[nodiscard]] std::string device() const;

  /// As quant::quantize_rows, but false only when the options refuse a non-finite element that was met; then
  /// the results are undefined. Error(runtime) when the backend fails.
  bool quantize(std::span<const quant::Row> rows, std::size_t k, const quant::Options& options);

 private:
  std::mutex turn_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Memory> memory_;
  std::vector<std::byte> staged_;  ///< rows one behind the other, then their values and scales
};

}  // namespace refit::device
