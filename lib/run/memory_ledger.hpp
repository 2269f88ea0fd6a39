// Counts the bytes that a process holds beside sources and final parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "refit/device/backend.hpp"
#include "run/memory_changes.hpp"

namespace refit::run {

class MemoryLedger {
 public:
  void add(std::uint64_t bytes) noexcept {
    current_ += bytes;
    peak_ = peak_ > current_ ? peak_ : current_;
    note();
  }
  void remove(std::uint64_t bytes) noexcept {
    current_ -= bytes;
    note();
  }
  [[nodiscard]] std::uint64_t current() const noexcept { return current_; }
  /// The peak since the last reset; a reset begins again from what is held now.
  [[nodiscard]] std::uint64_t peak() const noexcept { return peak_; }
  void reset_peak() noexcept { peak_ = current_; }

  /// Takes the memory for as many changes of a refit.
  void keep_changes(std::size_t most) { changes_.reserve(most); }
  /// Between these every change is kept, and what an earlier refit left is forgotten.
  void begin_refit() noexcept { changes_.begin(current_, Clock::now()); }
  void end_refit() noexcept { changes_.end(Clock::now()); }
  [[nodiscard]] std::span<const MemoryChange> changes() const noexcept { return changes_.changes(); }

 private:
  void note() noexcept {
    if (changes_.running()) changes_.note(current_, Clock::now());
  }
  std::uint64_t current_ = 0, peak_ = 0;
  MemoryChanges changes_;
};

/// Scratch of the backend that grows to what is asked and tells the ledger.
class Scratch {
 public:
  Scratch(device::Backend& backend, MemoryLedger& ledger) : backend_(backend), ledger_(ledger) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { release(); }

  /// At least `bytes` bytes; contents are lost when it grows.
  [[nodiscard]] std::byte* reserve(std::uint64_t bytes, const std::string& what) {
    if (memory_ == nullptr || bytes > memory_->bytes().size()) {
      release();
      memory_ = backend_.scratch(bytes, what);
      ledger_.add(bytes);
    }
    return memory_->bytes().data();
  }
  void release() {
    if (memory_ != nullptr) ledger_.remove(memory_->bytes().size());
    memory_.reset();
  }

 private:
  device::Backend& backend_;
  MemoryLedger& ledger_;
  std::unique_ptr<device::Memory> memory_;
};

}  // namespace refit::run
