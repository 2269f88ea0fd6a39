// The formulas of refit/reshard/parallelism.hpp, and every group made once.
#include "reshard/ranks.hpp"

#include <algorithm>
#include <map>

namespace refit::reshard {
namespace {

/// Each set of ranks has one number.
class Interned {
 public:
  explicit Interned(std::vector<std::vector<std::uint32_t>>& groups) : groups_(groups) {}

  std::uint32_t number(std::vector<std::uint32_t> ranks) {
    std::sort(ranks.begin(), ranks.end());
    const auto [found, is_new] = numbers_.emplace(ranks, static_cast<std::uint32_t>(groups_.size()));
    if (is_new) groups_.push_back(std::move(ranks));
    return found->second;
  }

 private:
  std::vector<std::vector<std::uint32_t>>& groups_;
  std::map<std::vector<std::uint32_t>, std::uint32_t> numbers_;
};

}  // namespace

Coordinates coordinates_of(const Parallelism& p, std::uint32_t rank) noexcept {
  Coordinates at;
  at.tp = rank % p.tp;
  at.dp = rank / p.tp % p.dp;
  at.pp = rank / (p.tp * p.dp);
  at.etp = rank % p.etp;
  at.ep = rank / p.etp % p.ep;
  at.edp = rank / (p.etp * p.ep) % p.edp();
  return at;
}

Holders::Holders(const Parallelism& p, std::uint32_t kv_parts, bool ends,
                 std::vector<std::vector<std::uint32_t>>& groups)
    : tp_(p.tp), ep_(p.ep), etp_(p.etp), kv_parts_(kv_parts), stages_(p.pp) {
  Interned interned(groups);
  // Tensor-parallel ranks [begin, end) of all replicas, at a home's stages.
  const auto dense = [&](std::uint32_t home, std::uint32_t begin, std::uint32_t end) {
    std::vector<std::uint32_t> ranks;
    for (const std::uint32_t stage : home < p.pp ? std::vector{home} : std::vector{0u, p.pp - 1}) {
      for (std::uint32_t replica = 0; replica < p.dp; ++replica) {
        for (std::uint32_t tp = begin; tp < end; ++tp) ranks.push_back(tp + p.tp * (replica + p.dp * stage));
      }
    }
    return interned.number(std::move(ranks));
  };
  const std::uint32_t homes = ends && p.pp > 1 ? p.pp + 1 : p.pp;
  for (std::uint32_t home = 0; home < homes; ++home) {
    all_.push_back(dense(home, 0, p.tp));
    for (std::uint32_t tp = 0; tp < p.tp; ++tp) parts_.push_back(dense(home, tp, tp + 1));
    for (std::uint32_t head = 0; head < kv_parts; ++head) {
      const std::uint32_t replicas = p.tp / kv_parts;
      kv_heads_.push_back(dense(home, head * replicas, (head + 1) * replicas));
    }
  }
  for (std::uint32_t stage = 0; stage < p.pp; ++stage) {
    for (std::uint32_t ep = 0; ep < p.ep; ++ep) {
      for (std::uint32_t etp = 0; etp < p.etp; ++etp) {
        std::vector<std::uint32_t> ranks;
        for (std::uint32_t replica = 0; replica < p.edp(); ++replica) {
          ranks.push_back(etp + p.etp * (ep + p.ep * (replica + p.edp() * stage)));
        }
        experts_.push_back(interned.number(std::move(ranks)));
      }
    }
  }
}

}  // namespace refit::reshard
