// Leaving out an eighth of the steps or more at once makes it a few comparisons for each.
#include "run/memory_changes.hpp"

#include <algorithm>

namespace refit::run {

void MemoryChanges::reserve(std::size_t most) {
  most_ = most;
  changes_.resize(most);  // pages are touched now and not within a refit
  changes_.clear();
  lengths_.resize(most);
  lengths_.clear();
}

void MemoryChanges::begin(std::uint64_t bytes, Clock::time_point at) noexcept {
  if (most_ == 0) return;
  changes_.clear();
  changes_.push_back({at, bytes});
  running_ = true;
}

void MemoryChanges::note(std::uint64_t bytes, Clock::time_point at) noexcept {
  if (!running_ || changes_.back().bytes == bytes) return;
  if (changes_.size() + 1 >= most_) thin();
  if (changes_.back().bytes != bytes) changes_.push_back({at, bytes});
}

void MemoryChanges::end(Clock::time_point at) noexcept {
  if (!running_) return;
  changes_.push_back({at, changes_.back().bytes});
  running_ = false;
}

void MemoryChanges::thin() noexcept {
  const std::size_t n = changes_.size();
  const auto length = [&](std::size_t i) { return changes_[i + 1].at - changes_[i].at; };
  const auto is_peak = [&](std::uint64_t before, std::size_t i) {
    return changes_[i].bytes > before && changes_[i].bytes > changes_[i + 1].bytes;
  };
  lengths_.clear();
  for (std::size_t i = 1; i + 1 < n; ++i) {
    if (!is_peak(changes_[i - 1].bytes, i)) lengths_.push_back(length(i));
  }
  const auto middle = lengths_.begin() + static_cast<std::ptrdiff_t>((lengths_.size() - 1) / 2);
  std::nth_element(lengths_.begin(), middle, lengths_.end());
  const Clock::duration limit = *middle;
  std::size_t kept = 1;
  bool left_out = false;  // the step before: two in a row would take the line too far from what was held
  std::uint64_t before = changes_[0].bytes;
  for (std::size_t i = 1; i < n; ++i) {
    const MemoryChange change = changes_[i];
    left_out = !left_out && i + 1 < n && !is_peak(before, i) && length(i) <= limit;
    before = change.bytes;
    if (!left_out) {
      if (changes_[kept - 1].bytes != change.bytes) changes_[kept++] = change;
    } else if (changes_[kept - 1].bytes < change.bytes) {
      changes_[i + 1].at = change.at;  // the higher neighbour reaches over it
    }
  }
  changes_.resize(kept);
}

}  // namespace refit::run
