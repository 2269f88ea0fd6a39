// Reading and writing safetensors files: strict, memory-mapped, bounded.
// Format: https://github.com/huggingface/safetensors#format (8-byte little-endian header length, JSON, data).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "refit/tensor/tensor.hpp"

namespace refit::checkpoint {

struct Entry {
  TensorSpec spec;
  std::uint64_t begin = 0, end = 0;  ///< byte range in the data area
};

/// One mapped file. Tensors are views into the mapping: they live as long as the object and need not be
/// aligned. Bytes of a file that shrinks while it is open read as zeros (opening one installs a handler for
/// SIGBUS in the process, which passes on what is not about such a file): who has read calls
/// check_unchanged() before the result counts.
class SafetensorsFile {
 public:
  /// Maps `path` and checks all of it that the header speaks of, before any large allocation: header length,
  /// JSON, dtypes, shapes against byte ranges, overlaps, gaps, missing and trailing bytes, duplicate names,
  /// non-string metadata. Throws Error(input) that names the file, the tensor and the reason.
  static SafetensorsFile open(const std::string& path);
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  [[nodiscard]] const std::string& path() const noexcept;
  [[nodiscard]] const std::vector<Entry>& entries() const noexcept;  ///< in order of their bytes, then names
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const noexcept;
  [[nodiscard]] bool contains(const std::string& name) const noexcept;
  [[nodiscard]] const Entry& entry(const std::string& name) const;  ///< Error(input) when absent
  [[nodiscard]] std::span<const std::byte> data(const Entry& entry) const noexcept;
  [[nodiscard]] std::span<const std::byte> data(const std::string& name) const;
  /// Error(runtime) "FILE: became shorter while it was read", or was removed, replaced or written to (seen by
  /// its size and modification time).
  void check_unchanged() const;

 private:
  struct State;
  explicit SafetensorsFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The checks of SafetensorsFile::open over bytes in memory (what the fuzzer drives). `place` names them.
[[nodiscard]] std::vector<Entry> parse_header(std::span<const std::byte> file, const std::string& place,
                                              std::map<std::string, std::string>* metadata = nullptr);

/// The JSON header (with its 8-byte length, padded with spaces to a multiple of 8) that describes `tensors`
/// laid out one after the other. Writes a readable file for zero tensors too.
[[nodiscard]] std::string make_header(const std::vector<TensorSpec>& tensors,
                                      const std::map<std::string, std::string>& metadata);

}  // namespace refit::checkpoint
