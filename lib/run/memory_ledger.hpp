// Counts the bytes that a process holds beside sources and final parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace refit::run {

class MemoryLedger {
 public:
  void add(std::uint64_t bytes) noexcept {
    current_ += bytes;
    peak_ = peak_ > current_ ? peak_ : current_;
  }
  void remove(std::uint64_t bytes) noexcept { current_ -= bytes; }
  /// The peak since the last reset; a reset begins again from what is held now.
  [[nodiscard]] std::uint64_t peak() const noexcept { return peak_; }
  void reset_peak() noexcept { peak_ = current_; }

 private:
  std::uint64_t current_ = 0, peak_ = 0;
};

/// Host scratch that grows to what is asked and tells the ledger.
class Scratch {
 public:
  explicit Scratch(MemoryLedger& ledger) : ledger_(&ledger) {}
  Scratch(Scratch&& other) noexcept : ledger_(other.ledger_), bytes_(std::exchange(other.bytes_, {})) {}
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() { release(); }

  /// At least `bytes` bytes; contents are lost when it grows.
  [[nodiscard]] std::byte* reserve(std::uint64_t bytes) {
    if (bytes > bytes_.size()) {
      release();
      bytes_.resize(bytes);
      ledger_->add(bytes);
    }
    return bytes_.data();
  }
  void release() {
    ledger_->remove(bytes_.size());
    bytes_ = {};
  }
  [[nodiscard]] std::uint64_t size() const noexcept { return bytes_.size(); }

 private:
  MemoryLedger* ledger_;
  std::vector<std::byte> bytes_;
};

}  // namespace refit::run
