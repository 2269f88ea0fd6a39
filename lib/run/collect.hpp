// From the record of one refit to the samples of an arm.
#pragma once

#include "refit/run/result.hpp"
#include "run/trainer.hpp"

namespace refit::run {

/// Seconds of the copies to and from host memory around one refit.
struct HostSeconds {
  double offload = 0, swap = 0;
};

/// Adds one measured step.
void collect(const RefitRecord& record, const HostSeconds& host, const plan::Plan& plan, device::Kind kind,
             ArmResult& arm);

/// A stage's time by the device's own events.
struct DeviceTime {
  Role role = Role::trainer;
  device::StageTime stage;
};
/// Of a profiled refit; replaces what an earlier one left.
void collect_device_times(const RefitRecord& record, std::vector<DeviceTime>& times);
void add_device_times(const std::vector<DeviceTime>& times, ArmResult& arm);

}  // namespace refit::run
