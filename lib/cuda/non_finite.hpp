// Infinite and NaN weights: reported by kernels as a number, told by name when the work is waited for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda/buffers.hpp"
#include "cuda/session.hpp"
#include "refit/device/task.hpp"

namespace refit::cuda {

class NonFinite {
 public:
  explicit NonFinite(const SessionPtr& session);

  /// What a message says of a task.
  struct Named {
    const std::string* tensor = nullptr;
    const std::byte* from = nullptr;
    std::uint64_t first_row = 0, cols = 0, row_bytes = 0;
  };
  /// Of every task of a list, in its order; null where none refuses anything.
  using Names = std::shared_ptr<const std::vector<Named>>;
  [[nodiscard]] static Names names_of(std::span<const device::Task> tasks);

  /// The word that kernels write to, and the id_base of a launch of these tasks.
  [[nodiscard]] unsigned long long* word() const noexcept;
  [[nodiscard]] std::uint64_t begin_launch(const Names& names);

  /// Asks for the word, to be looked at when the stream is idle.
  void ask();
  /// Error(input) naming the first such element, if there was one since the last call.
  void judge();

 private:
  struct Launch {
    std::uint64_t id_base = 0;
    Names names;
  };
  void reset();

  SessionPtr session_;
  DeviceBuffer device_;
  PinnedBuffer host_;
  std::uint64_t next_id_ = 0;
  std::vector<Launch> launches_;  ///< since the last judge(), those that refuse
};

}  // namespace refit::cuda
