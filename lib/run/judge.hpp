// From the evidence of a verified refit to the verdict of the four checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refit/verify/verify.hpp"
#include "run/trainer.hpp"

namespace refit::run {

struct Judgement {
  const Arm& arm;
  std::span<const std::byte> sources, destinations;
  const std::vector<std::uint64_t>& first_digests;  ///< of the refit before, over another poison
  std::byte poison;
  std::uint64_t announced_version, committed_version;
  const std::vector<verify::Check>& without;  ///< checks that are switched off
};

[[nodiscard]] verify::Verdict judge(const Judgement& what, const RefitRecord& record,
                                    device::Backend& backend, ThreadPool& pool);

}  // namespace refit::run
