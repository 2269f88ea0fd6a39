// One rank of many without the others: what they say, and what they send.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ranks/messages.hpp"
#include "ranks/rounds.hpp"
#include "refit/device/backend.hpp"
#include "refit/model/inventory.hpp"
#include "refit/quant/mxfp8.hpp"
#include "refit/transport/group.hpp"

namespace refit::ranks {

/// Everybody says what this rank says.
class SimulatedGroup final : public transport::Group {
 public:
  SimulatedGroup(std::uint32_t rank, std::uint32_t size) : rank_(rank), size_(size) {}
  [[nodiscard]] std::uint32_t rank() const noexcept override { return rank_; }
  [[nodiscard]] std::uint32_t size() const noexcept override { return size_; }
  [[nodiscard]] std::vector<std::string> all_gather(std::string_view mine, Deadline) override {
    return std::vector<std::string>(size_, std::string(mine));
  }
  void doing(std::string_view) noexcept override {}

 private:
  std::uint32_t rank_, size_;
};

/// The peers of one arm. What they would send is made from the seed as they would make it, before the refit;
/// in the refit it is copied to where it is received, beside the rank's own work. What is sent to them is not
/// looked at.
class SimulatedPeers final : public transport::Exchange {
 public:
  /// `rounds` are the rank's own; their plan outlives this.
  SimulatedPeers(std::vector<Round> rounds, const model::Inventory& model, device::Backend& backend,
                 const quant::Options& options);

  /// Of every refit: makes what is sent at this step, if it is not there already.
  void begin(std::uint64_t seed, std::uint64_t step, Deadline deadline);
  /// Frees it.
  void release() noexcept { sent_.reset(); }
  /// Digests of it, by peer.
  [[nodiscard]] ByPeer digests();

  /// Bytes of begin() at their most: all that is received, and one round of weights.
  [[nodiscard]] static std::uint64_t memory_needed(const std::vector<Round>& rounds,
                                                   const model::Inventory& model);

  [[nodiscard]] std::string_view name() const noexcept override { return "simulated"; }
  void start(unsigned slot, std::span<const transport::Part> sends,
             std::span<const transport::Part> receives) override;
  void wait(unsigned slot, Deadline deadline) override;
  void abandon(Buffers) noexcept override {}  // a backend frees no memory that it still copies

 private:
  void make(std::size_t round, std::span<std::byte> weights, std::uint64_t seed, std::uint64_t step);
  [[nodiscard]] std::byte* sent_in(std::size_t round) const {
    return sent_->bytes().data() + offsets_[round];
  }

  std::vector<Round> rounds_;
  const model::Inventory& model_;
  device::Backend& backend_;
  quant::Options options_;
  std::vector<std::uint64_t> offsets_;  ///< of each round's messages
  std::unique_ptr<device::Memory> sent_;
  std::uint64_t step_ = 0;  ///< of sent_
  std::size_t next_ = 0;    ///< round
  std::array<std::uint64_t, kSlots> copies_{};
};

}  // namespace refit::ranks
