// The backend of plain host memory: everything is done when a call returns.
#pragma once

#include <memory>
#include <optional>

#include "device/host_checker.hpp"
#include "device/host_moves.hpp"
#include "refit/base/thread_pool.hpp"
#include "refit/device/backend.hpp"

namespace refit::device {

class HostBackend : public Backend {
 public:
  explicit HostBackend(unsigned threads);
  std::unique_ptr<Memory> allocate(std::uint64_t bytes, const std::string& what) override;
  std::unique_ptr<Memory> scratch(std::uint64_t bytes, const std::string& what) override;
  std::unique_ptr<Memory> open(const std::string& token, transport::UniqueFd fd, std::uint64_t bytes,
                               const std::string& what) override;
  HandleCounts handles() const noexcept override { return handles_; }
  std::uint64_t own_bytes() const noexcept override { return shuffle_scratch_.size(); }
  std::uint64_t available_memory() const override;

  void run(std::span<const Task> tasks) override;
  std::unique_ptr<Program> prepare(std::span<const Task> tasks) override;
  void run(const Program& program) override;
  void copy(std::byte* to, const std::byte* from, std::uint64_t bytes) override;
  std::uint64_t copy_to_peers(std::span<const PeerCopy> copies) override;
  void after_copies(std::uint64_t) override {}  // nothing is ever unfinished
  void shuffle_in_place(const Shuffle& what) override;
  void fill(std::span<std::byte> range, std::byte value) override;
  void finish(Deadline) override {}
  void read(std::span<std::byte> host, const std::byte* from) override;
  void write(std::byte* to, std::span<const std::byte> host) override;
  void delay(double seconds) override;

  void fill_weights(std::span<const WeightBox> boxes, std::uint64_t seed) override;
  void update_weights(std::span<const WeightBox> boxes, std::uint64_t seed, std::uint64_t step) override;
  Checker& checker() override { return checker_; }

  void stage(std::string_view) override {}
  void profile(bool) override {}
  std::vector<StageTime> stage_times() override { return {}; }
  CopySamples measure_copy(std::span<const std::byte> from, std::span<std::byte> to) override;
  double move_to_host(std::uint64_t bytes, bool pinned) override;
  double move_from_host(std::uint64_t bytes, bool pinned) override;
  Description describe() const override { return {}; }
  Clocks clocks() const override { return {}; }

 private:
  [[nodiscard]] HostMoves& moves();

  ThreadPool pool_;
  HostChecker checker_;
  HandleCounts handles_;
  std::vector<std::byte> shuffle_scratch_;
  std::optional<HostMoves> moves_;
};

}  // namespace refit::device
