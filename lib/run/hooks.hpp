// Where a planted fault can reach into a refit. The default does nothing; see faults.cpp for those that do.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "refit/plan/plan.hpp"
#include "refit/plan/wire.hpp"

namespace refit::run {

class Hooks {
 public:
  virtual ~Hooks() = default;

  /// Whether there is a fault at all: without one, nobody has to show bytes to this object.
  [[nodiscard]] bool planted() const noexcept { return planted_; }
  void plant() noexcept { planted_ = true; }
  /// Whether the fault found something to act on: not every model and switch has what it needs.
  [[nodiscard]] bool acted() const noexcept { return acted_.load(std::memory_order_relaxed); }

  // Trainer.
  /// The options with which the sender quantizes a segment.
  virtual quant::Options quantize_options(const plan::Segment&, const quant::Options& options) {
    return options;
  }
  /// A bucket is packed and not yet looked at by anyone.
  virtual void packed(const plan::Plan&, const plan::Wire&, std::size_t /*bucket*/, std::span<std::byte>) {}
  /// A bucket is on its way: what happens here happens to the transport.
  virtual void in_transit(const plan::Plan&, const plan::Wire&, std::size_t /*bucket*/,
                          std::span<std::byte>) {}
  /// Weights are about to change from one step to the next.
  virtual void before_update(const plan::Plan&, std::span<const std::byte> /*sources*/) {}
  /// direct: whether a segment is executed at all.
  virtual bool execute(const plan::Plan&, const plan::Segment&) { return true; }

  // Generator.
  enum class Install : std::uint8_t { once, skip, twice };
  virtual Install install(const plan::Plan&, const plan::WireEntry&) { return Install::once; }
  /// The entry whose place an entry's bytes go to: itself, or another of the same shape.
  virtual std::size_t place_of(const plan::Plan&, const plan::Wire&, std::size_t entry) { return entry; }
  virtual bool acknowledge_before_reading() { return false; }
  /// Seconds by which the reading of a bucket is held up.
  virtual double delay_before_reading() { return 0; }
  /// How often the rows of a destination are shuffled.
  virtual unsigned shuffles(const plan::Plan&, const plan::Destination&) { return 1; }
  /// Canonical scales of one destination, before they are laid out.
  virtual void before_swizzle(const plan::Plan&, const plan::Destination&,
                              std::span<std::byte> /*canonical*/) {}
  /// Everything is laid out and not yet committed.
  virtual void installed(const plan::Plan&, std::span<std::byte> /*destinations*/) {}
  virtual std::uint64_t committed_version(std::uint64_t version) { return version; }

 protected:
  void act() noexcept { acted_.store(true, std::memory_order_relaxed); }

 private:
  bool planted_ = false;
  std::atomic<bool> acted_{false};  ///< worker threads act too
};

/// The hooks of a fault by name; no fault for an empty name. Error(input) for an unknown one.
[[nodiscard]] std::unique_ptr<Hooks> make_hooks(std::string_view fault);

}  // namespace refit::run
