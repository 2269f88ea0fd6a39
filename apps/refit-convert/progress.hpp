// A bar of bytes and time left on a terminal; nothing anywhere else.
#pragma once

#include <chrono>
#include <cstdint>

namespace refit::apps {

class ByteBar {
 public:
  explicit ByteBar(bool wanted);
  ~ByteBar();
  ByteBar(const ByteBar&) = delete;
  ByteBar& operator=(const ByteBar&) = delete;
  /// Draws a few times a second, and the last byte.
  void show(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  bool enabled_;
  Clock::time_point begin_ = Clock::now(), next_ = begin_;
};

}  // namespace refit::apps
