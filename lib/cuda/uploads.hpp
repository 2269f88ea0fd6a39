// Descriptors on their way to the GPU: copied into pinned memory, from there in stream order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "cuda/buffers.hpp"
#include "cuda/session.hpp"
#include "refit/base/bytes.hpp"

namespace refit::cuda {

/// A ring of chunks, each of pinned and device memory. Nothing waits: where the GPU still has to read every
/// chunk, there is one more. A chunk is used again when an event says that it was copied; device memory needs
/// no event, because later copies come behind the kernels that read it.
class Uploads {
 public:
  explicit Uploads(SessionPtr session) : session_(std::move(session)) {}

  /// Device copies of the arrays, in one piece of work. They hold for what is asked for before the next call;
  /// kernels may write them.
  template <typename... Elements>
  [[nodiscard]] std::tuple<Elements*...> send(const std::vector<Elements>&... arrays) {
    std::byte* at = send_parts({std::as_bytes(std::span(arrays))...});
    const auto next = [&at]<typename Element>(const std::vector<Element>& array) {
      auto* const here = reinterpret_cast<Element*>(at);
      at += padded(array.size() * sizeof(Element));
      return here;
    };
    return std::tuple<Elements*...>{next(arrays)...};
  }
  /// Gives back the chunks that one large list made necessary. Nothing is under way.
  void release_large();
  /// Copies to device memory that the caller owns.
  void send_to(std::byte* device, std::span<const std::byte> bytes);

 private:
  struct Chunk {
    PinnedBuffer host;
    DeviceBuffer device;
    Event copied{Event::Timing::off};
    std::uint64_t used = 0;
  };
  /// Every array begins where any type may.
  [[nodiscard]] static constexpr std::uint64_t padded(std::uint64_t bytes) noexcept {
    return align_up(bytes, 256);
  }
  [[nodiscard]] std::byte* send_parts(std::initializer_list<std::span<const std::byte>> parts);
  /// A chunk with room for `bytes` behind what is used of it.
  [[nodiscard]] Chunk& chunk_for(std::uint64_t bytes);

  SessionPtr session_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  Chunk* current_ = nullptr;
};

}  // namespace refit::cuda
