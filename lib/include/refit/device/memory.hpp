// Memory that the trainer and the generator share: allocated by one of them, opened by the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace refit::device {

/// Owns an allocation, or a peer's allocation that was opened here; frees or closes it when it goes. The
/// bytes are addresses of the backend that made it: device addresses for a GPU.
class Memory {
 public:
  /// What a peer needs to open the memory. Either part may be empty.
  struct Handle {
    std::string token;  ///< cudaIpcMemHandle_t, as raw bytes
    int fd = -1;        ///< memfd or exported allocation; owned by the Memory
  };

  virtual ~Memory() = default;
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
  /// Error(runtime) for memory that was not allocated to be shared.
  [[nodiscard]] virtual Handle handle() const = 0;
  /// Opens the same memory once more, to look at bytes [offset, offset + count): what a stack does that sends
  /// one handle for each tensor. Only of memory that came from Backend::open. The window must not outlive it.
  [[nodiscard]] virtual std::unique_ptr<Memory> window(std::uint64_t offset, std::uint64_t count) const = 0;

 protected:
  std::span<std::byte> bytes_;
};

}  // namespace refit::device
