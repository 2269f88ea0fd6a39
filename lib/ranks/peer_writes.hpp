// pipeline=direct between ranks that reach each other's memory: what a rank has goes to everybody's
// parameters in their final layout, layer by layer.
//
//   a matrix (an expert) that this rank fills completely:  made once here, in this rank's own parameters
//   where both hold
//       the same, else in a staging image, then moved by the copy engines while the next layer is made
//   anything less than a matrix:                            written into the peer's memory by the kernel
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ranks/peers.hpp"
#include "ranks/rounds.hpp"
#include "ranks/share.hpp"
#include "ranks/tasks.hpp"
#include "refit/device/backend.hpp"
#include "refit/reshard/reshard.hpp"
#include "run/stages.hpp"

namespace refit::ranks {

class PeerWrites {
 public:
  struct Sides {
    const TrainerShare* trainer = nullptr;
    std::span<std::byte> sources;
    const GeneratorShare* generator = nullptr;
    std::span<std::byte> destinations;
    std::uint32_t process = 0;
  };
  /// `share_of` makes the share of another process's generator rank. Error(input) for boxes whose columns cut
  /// blocks: no rank alone can quantize them.
  PeerWrites(const reshard::Reshard& plan, const Processes& processes, const Sides& sides, const Peers& peers,
             const std::function<std::unique_ptr<GeneratorShare>(std::uint32_t process)>& share_of,
             device::Backend& backend);

  /// Asks for everything; done when the backend has finished.
  void run(run::Stages& stages);
  [[nodiscard]] std::uint64_t staging_bytes() const noexcept {
    return staging_ ? staging_->bytes().size() : 0;
  }

 private:
  using Matrix = std::pair<std::uint32_t, std::uint64_t>;  ///< destination, matrix
  /// Another process's parameters.
  struct Peer {
    std::unique_ptr<GeneratorShare> share;
    std::span<std::byte> arena;
    bool like_own = false;  ///< holds the same boxes in the same places
  };
  struct Step {
    std::vector<const reshard::Transfer*> transfers;
    std::vector<device::Task> tasks;
    std::unique_ptr<device::Program> program;
    std::vector<device::PeerCopy> copies;
    std::uint64_t bytes = 0, staging = 0;
  };

  [[nodiscard]] std::vector<Step> steps_of(const reshard::Reshard& plan) const;
  /// Matrices of a process's parameters that a step fills to the last element.
  [[nodiscard]] std::map<Matrix, bool> filled(const Step& step, const GeneratorShare& share,
                                              std::uint32_t process) const;
  void plan_own(Step& step);
  void plan_peer(Step& step, std::uint32_t process, Peer& peer, std::byte* staging);
  void place(Step& step, const GeneratorShare& share, std::uint32_t process,
             const MatrixAddress& address) const;

  Processes processes_;
  Sides sides_;
  const model::Inventory& model_;
  device::Backend& backend_;
  std::map<std::uint32_t, Peer> peers_;
  std::vector<Step> steps_;
  std::unique_ptr<device::Memory> staging_;
};

}  // namespace refit::ranks
