// Owners of CUDA's resources: device memory, pinned host memory, events. They free without a word, also when
// the driver is gone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "cuda/session.hpp"

namespace refit::cuda {

/// cudaMalloc. Error(runtime) with what was asked, what is free and what to make smaller.
[[nodiscard]] std::byte* allocate_device(const Session& session, std::uint64_t bytes,
                                         const std::string& what);
/// cudaFree, which waits for work under way: not after a wait was given up.
void free_device(const Session& session, void* data) noexcept;
[[noreturn]] void fail_memory(const Session& session, std::uint64_t bytes, const std::string& what);

/// Device memory that the backend holds for itself: counted in Session::own_bytes.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(const SessionPtr& session, std::uint64_t bytes, const std::string& what);
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : session_(std::move(other.session_)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return bytes_; }

 private:
  SessionPtr session_;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// cudaMallocHost.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(std::uint64_t bytes, const std::string& what);
  PinnedBuffer(PinnedBuffer&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  ~PinnedBuffer();

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::byte* data() const noexcept { return bytes_.data(); }
  [[nodiscard]] std::uint64_t size() const noexcept { return bytes_.size(); }

 private:
  std::span<std::byte> bytes_;
};

class Event {
 public:
  enum class Timing : bool { off, on };
  explicit Event(Timing timing);
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept;
  ~Event();

  void record(cudaStream_t stream);
  /// True also before the first record().
  [[nodiscard]] bool done() const;
  /// Seconds from one to the other; both are done.
  [[nodiscard]] static double seconds(const Event& from, const Event& to);

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace refit::cuda
