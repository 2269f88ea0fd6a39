// Host memory and a pool of threads.
#include "device/host_backend.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "device/host_copy.hpp"
#include "device/host_memory.hpp"
#include "device/host_tasks.hpp"
#include "refit/device/weights.hpp"

namespace refit::device {
namespace {

struct HostProgram final : Program {
  std::vector<Task> pieces;
};

}  // namespace

HostBackend::HostBackend(unsigned threads) : pool_(threads), checker_(pool_) {}

std::unique_ptr<Memory> HostBackend::allocate(std::uint64_t bytes, const std::string& what) {
  return allocate_host(bytes, what);
}

std::unique_ptr<Memory> HostBackend::scratch(std::uint64_t bytes, const std::string&) {
  return scratch_host(bytes);
}

std::unique_ptr<Memory> HostBackend::open(const std::string&, transport::UniqueFd fd, std::uint64_t bytes,
                                          const std::string& what) {
  return open_host(std::move(fd), bytes, what, handles_);
}

std::uint64_t HostBackend::available_memory() const {
  return transport::available_memory();
}

void HostBackend::run(std::span<const Task> tasks) {
  execute_pieces(cut_into_pieces(tasks), pool_);
}

std::unique_ptr<Program> HostBackend::prepare(std::span<const Task> tasks) {
  auto program = std::make_unique<HostProgram>();
  program->pieces = cut_into_pieces(tasks);
  return program;
}

void HostBackend::run(const Program& program) {
  execute_pieces(static_cast<const HostProgram&>(program).pieces, pool_);
}

void HostBackend::copy(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  parallel_copy(to, from, bytes, pool_);
}

std::uint64_t HostBackend::copy_to_peers(std::span<const PeerCopy> copies) {
  for (const PeerCopy& copy : copies) parallel_copy(copy.to, copy.from, copy.bytes, pool_);
  return 0;
}

void HostBackend::shuffle_in_place(const Shuffle& what) {
  const std::uint64_t bytes = shuffle_scratch_bytes(what, pool_);
  if (bytes > shuffle_scratch_.size()) shuffle_scratch_ = std::vector<std::byte>(bytes);
  device::shuffle_in_place(what, shuffle_scratch_.data(), pool_);
}

void HostBackend::fill(std::span<std::byte> range, std::byte value) {
  constexpr std::size_t kPiece = 1u << 20;
  pool_.for_range(range.size(), kPiece, [&](std::size_t begin, std::size_t end) {
    std::ranges::fill(range.subspan(begin, end - begin), value);
  });
}

void HostBackend::read(std::span<std::byte> host, const std::byte* from) {
  std::memcpy(host.data(), from, host.size());
}

void HostBackend::write(std::byte* to, std::span<const std::byte> host) {
  std::memcpy(to, host.data(), host.size());
}

void HostBackend::delay(double seconds) {
  ::usleep(static_cast<useconds_t>(seconds * 1e6));
}

void HostBackend::fill_weights(std::span<const WeightBox> boxes, std::uint64_t seed) {
  device::fill_weights(boxes, seed, pool_);
}

void HostBackend::update_weights(std::span<const WeightBox> boxes, std::uint64_t seed, std::uint64_t step) {
  device::update_weights(boxes, seed, step, pool_);
}

CopySamples HostBackend::measure_copy(std::span<const std::byte> from, std::span<std::byte> to) {
  return measure_host_copy(from, to, pool_);
}

HostMoves& HostBackend::moves() {
  if (!moves_) moves_.emplace(pool_);
  return *moves_;
}

double HostBackend::move_to_host(std::uint64_t bytes, bool pinned) {
  return moves().run(bytes, pinned);
}

double HostBackend::move_from_host(std::uint64_t bytes, bool pinned) {
  return moves().run(bytes, pinned);
}

std::unique_ptr<Backend> make_host_backend(unsigned threads) {
  return std::make_unique<HostBackend>(threads);
}

}  // namespace refit::device
