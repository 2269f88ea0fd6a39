// The same work on the host and on the GPU, so that their bytes can be compared.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "refit/cuda/backend.hpp"
#include "refit/device/backend.hpp"
#include "refit/device/task.hpp"

namespace refit::test {

using HostBytes = std::vector<std::byte>;

inline Deadline soon() {
  return Deadline::after(std::chrono::seconds(60));
}

inline device::Backend& host() {
  static const std::unique_ptr<device::Backend> backend = device::make_host_backend(2);
  return *backend;
}

inline device::Backend& gpu() {
  static const std::unique_ptr<device::Backend> backend =
      cuda::make_backend({device::Kind::cuda, device::Transport::cuda_ipc, 1, 0});
  return *backend;
}

inline HostBytes random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  HostBytes bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

/// BF16 weights of every magnitude, all finite.
inline HostBytes random_weights(std::size_t elements, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  HostBytes bytes(elements * 2);
  unsigned block_exponent = 100;
  for (std::size_t i = 0; i < elements; ++i) {
    if (i % 32 == 0) block_exponent = static_cast<unsigned>(random() % 255);
    const unsigned drop = static_cast<unsigned>(random() % 12);
    const unsigned exponent = block_exponent > drop ? block_exponent - drop : 0;
    const auto bits = static_cast<std::uint16_t>((random() & 0x8000) | exponent << 7 | (random() & 0x7F));
    std::memcpy(bytes.data() + i * 2, &bits, 2);
  }
  return bytes;
}

/// A copy of host bytes in a backend's memory.
class Copied {
 public:
  Copied(device::Backend& backend, const HostBytes& bytes)
      : backend_(backend), memory_(backend.scratch(bytes.size(), "a test's bytes")) {
    backend.write(memory_->bytes().data(), bytes);
  }
  [[nodiscard]] std::byte* data() const { return memory_->bytes().data(); }
  [[nodiscard]] std::span<std::byte> bytes() const { return memory_->bytes(); }
  [[nodiscard]] HostBytes read() const {
    HostBytes bytes(memory_->bytes().size());
    backend_.read(bytes, memory_->bytes().data());
    return bytes;
  }

 private:
  device::Backend& backend_;
  std::unique_ptr<device::Memory> memory_;
};

/// "" when equal, else where the first difference is.
inline std::string difference(const HostBytes& got, const HostBytes& want) {
  if (got.size() != want.size()) return "sizes differ";
  const auto at = std::mismatch(got.begin(), got.end(), want.begin());
  if (at.first == got.end()) return "";
  std::size_t count = 0;
  for (std::size_t i = 0; i < got.size(); ++i) count += got[i] != want[i] ? 1 : 0;
  return "byte " + std::to_string(at.first - got.begin()) + " is " +
         std::to_string(std::to_integer<int>(*at.first)) + ", not " +
         std::to_string(std::to_integer<int>(*at.second)) + " (" + std::to_string(count) + " differ)";
}

}  // namespace refit::test
