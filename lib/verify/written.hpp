// One bit for each byte of a region: written, or not yet.
#pragma once

#include <cstdint>
#include <vector>

namespace refit::verify {

class Written {
 public:
  explicit Written(std::uint64_t bytes) : bytes_(bytes), words_((bytes + 63) / 64) {}

  /// Bytes of one kind: where the first is and how many.
  struct Found {
    std::uint64_t first = 0, count = 0;
  };

  void mark(std::uint64_t begin, std::uint64_t bytes) noexcept;
  [[nodiscard]] const Found& again() const noexcept { return again_; }      ///< marked when they were already
  [[nodiscard]] const Found& outside() const noexcept { return outside_; }  ///< marked behind the end
  [[nodiscard]] Found missing() const noexcept;                             ///< never marked

 private:
  std::uint64_t bytes_;
  std::vector<std::uint64_t> words_;
  Found again_, outside_;
};

}  // namespace refit::verify
