// Where a rank stands among the others, and the groups of ranks that hold one part.
#pragma once

#include <cstdint>
#include <vector>

#include "refit/reshard/parallelism.hpp"

namespace refit::reshard {

struct Coordinates {
  std::uint32_t tp = 0, dp = 0, pp = 0;
  std::uint32_t etp = 0, ep = 0, edp = 0;
};
[[nodiscard]] Coordinates coordinates_of(const Parallelism& parallelism, std::uint32_t rank) noexcept;

/// Numbers of groups (indices into Layout::groups()) by what their ranks hold. A home is a stage, or
/// ends(): the first and the last stage together, which both hold a tied embedding.
class Holders {
 public:
  /// `kv_parts`: key-value heads that are fewer than tp and replicated, else 0. `ends`: whether some tensor
  /// is at both ends. Appends to `groups`.
  Holders(const Parallelism& parallelism, std::uint32_t kv_parts, bool ends,
          std::vector<std::vector<std::uint32_t>>& groups);

  [[nodiscard]] std::uint32_t ends() const noexcept { return stages_ > 1 ? stages_ : 0; }
  [[nodiscard]] bool is_home(std::uint32_t home, std::uint32_t stage) const noexcept {
    return home == stage || (home == stages_ && (stage == 0 || stage + 1 == stages_));
  }
  [[nodiscard]] std::uint32_t all(std::uint32_t home) const { return all_[home]; }
  [[nodiscard]] std::uint32_t part(std::uint32_t home, std::uint64_t part) const {
    return parts_[home * tp_ + part];
  }
  [[nodiscard]] std::uint32_t kv_head(std::uint32_t home, std::uint64_t head) const {
    return kv_heads_[home * kv_parts_ + head];
  }
  [[nodiscard]] std::uint32_t expert(std::uint32_t stage, std::uint64_t ep, std::uint64_t etp) const {
    return experts_[(stage * ep_ + ep) * etp_ + etp];
  }

 private:
  std::uint64_t tp_, ep_, etp_, kv_parts_;
  std::uint32_t stages_;
  std::vector<std::uint32_t> all_, parts_, kv_heads_, experts_;
};

}  // namespace refit::reshard
