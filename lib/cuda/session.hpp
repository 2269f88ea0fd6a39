// What all parts of one backend share: the GPU, its stream, what is waited for, and what is counted.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cuda/gpu.hpp"
#include "refit/device/backend.hpp"
#include "refit/time/deadline.hpp"

namespace refit::cuda {

class Session {
 public:
  /// `patience` bounds every wait that has no deadline of its own.
  Session(Gpu gpu, std::chrono::duration<double> patience);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] const Gpu& gpu() const noexcept { return gpu_; }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }

  /// Says before each piece of work what it is, for messages: a string literal such as "copying rows".
  void begin(std::string_view what);
  void enter_stage(std::string_view name) { stage_ = name; }

  /// Returns when the stream has nothing left to do. Error(runtime) when the deadline passes before.
  void wait(Deadline deadline);
  /// For calls without a deadline of their own.
  void wait();
  /// The same for destructors: gives up silently, and at once after a wait that failed.
  void drain() noexcept;
  /// A wait failed: what is freed now would wait for the same work, without a limit. The driver takes
  /// everything back when this process ends, which it is about to.
  [[nodiscard]] bool gave_up() const noexcept { return gave_up_; }

  /// Copies to the host what is there when everything that was asked for is done.
  void read(std::span<std::byte> host, const void* device);

  device::HandleCounts handles;
  std::uint64_t own_bytes = 0;  ///< of device memory that the backend holds for itself

 private:
  Gpu gpu_;
  std::chrono::duration<double> patience_;
  cudaStream_t stream_ = nullptr;
  bool gave_up_ = false;
  std::optional<Clock::time_point> busy_since_;
  std::string_view last_ = "waiting for the GPU";
  std::string stage_;
};

using SessionPtr = std::shared_ptr<Session>;

}  // namespace refit::cuda
