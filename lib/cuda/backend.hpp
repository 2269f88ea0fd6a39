// The backend of one GPU.
#pragma once

#include <optional>

#include "cuda/checker.hpp"
#include "cuda/moves.hpp"
#include "cuda/non_finite.hpp"
#include "cuda/nvml.hpp"
#include "cuda/peer_copies.hpp"
#include "cuda/row_maps.hpp"
#include "cuda/session.hpp"
#include "cuda/stages.hpp"
#include "cuda/tiles.hpp"
#include "cuda/uploads.hpp"
#include "kernels/grouped.hpp"
#include "refit/device/backend.hpp"

namespace refit::cuda {

class CudaBackend final : public device::Backend {
 public:
  CudaBackend(SessionPtr session, device::Transport transport);
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  std::unique_ptr<device::Memory> allocate(std::uint64_t bytes, const std::string& what) override;
  std::unique_ptr<device::Memory> scratch(std::uint64_t bytes, const std::string& what) override;
  std::unique_ptr<device::Memory> open(const std::string& token, transport::UniqueFd fd, std::uint64_t bytes,
                                       const std::string& what) override;
  device::HandleCounts handles() const noexcept override { return session_->handles; }
  std::uint64_t own_bytes() const noexcept override {
    return session_->own_bytes - (moves_ ? moves_->window_bytes() : 0);
  }
  std::uint64_t available_memory() const override;

  void run(std::span<const device::Task> tasks) override;
  std::unique_ptr<device::Program> prepare(std::span<const device::Task> tasks) override;
  void run(const device::Program& program) override;
  void copy(std::byte* to, const std::byte* from, std::uint64_t bytes) override;
  std::uint64_t copy_to_peers(std::span<const device::PeerCopy> copies) override {
    return peer_copies_.begin(copies);
  }
  void after_copies(std::uint64_t number) override { peer_copies_.hold_up_stream(number); }
  void shuffle_in_place(const device::Shuffle& what) override;
  void fill(std::span<std::byte> range, std::byte value) override;
  void finish(Deadline deadline) override;
  void read(std::span<std::byte> host, const std::byte* from) override;
  void write(std::byte* to, std::span<const std::byte> host) override;
  void delay(double seconds) override;

  void fill_weights(std::span<const device::WeightBox> boxes, std::uint64_t seed) override;
  void update_weights(std::span<const device::WeightBox> boxes, std::uint64_t seed,
                      std::uint64_t step) override;
  device::Checker& checker() override { return checker_; }

  void stage(std::string_view name) override { stages_.enter(name); }
  void profile(bool on) override { stages_.profile(on); }
  std::vector<device::StageTime> stage_times() override { return stages_.times(); }
  device::CopySamples measure_copy(std::span<const std::byte> from, std::span<std::byte> to) override;
  double move_to_host(std::uint64_t bytes, bool pinned) override { return moves().to_host(bytes, pinned); }
  double move_from_host(std::uint64_t bytes, bool pinned) override {
    return moves().from_host(bytes, pinned);
  }
  device::Description describe() const override;
  device::Clocks clocks() const override { return nvml_.clocks(); }

 private:
  void launch(const kernels::GroupedShape& shape, const std::byte* blob, const NonFinite::Names& names);
  [[nodiscard]] Moves& moves();

  SessionPtr session_;
  device::Transport transport_;
  Nvml nvml_;
  Uploads uploads_;
  RowMaps row_maps_;
  NonFinite non_finite_;
  Checker checker_;
  Stages stages_;
  DeviceBuffer shuffle_scratch_;
  std::optional<Moves> moves_;
  PeerCopies peer_copies_;
};

}  // namespace refit::cuda
