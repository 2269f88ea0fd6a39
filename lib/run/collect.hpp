// From the record of one refit to the samples of an arm.
#pragma once

#include "refit/run/result.hpp"
#include "run/trainer.hpp"

namespace refit::run {

/// Seconds of the host-memory stand-ins around one refit.
struct HostSeconds {
  double offload = 0, swap = 0;
};

/// Adds one measured step.
void collect(const RefitRecord& record, const HostSeconds& host, const plan::Plan& plan, ArmResult& arm);

}  // namespace refit::run
