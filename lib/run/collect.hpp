// From the record of one refit to the samples of an arm.
#pragma once

#include "refit/run/result.hpp"
#include "run/host_traffic.hpp"
#include "run/trainer.hpp"

namespace refit::run {

/// Adds one measured step.
void collect(const RefitRecord& record, const HostSeconds& host, const plan::Plan& plan, device::Kind kind,
             ArmResult& arm);

/// The same for a process that has both roles on one thread: its stages, after `earlier` steps.
void add_sample(const Timeline& step, std::size_t earlier, std::vector<StageSamples>& stages);

/// A stage's time by the device's own events.
struct DeviceTime {
  Role role = Role::trainer;
  device::StageTime stage;
};
/// Of a profiled refit; replaces what an earlier one left.
void collect_device_times(const RefitRecord& record, std::vector<DeviceTime>& times);
void add_device_times(const std::vector<DeviceTime>& times, ArmResult& arm);

/// What one process kept of the last refit, `start` being when the trainer's began; its stages where `spans`
/// are wanted.
void collect_kept(KeptRecord kept, Clock::time_point start, bool spans, ArmResult::RoleTime& role);

/// What a repetition of the backend's copies adds to those before.
void append(const device::CopySamples& now, CopyBandwidth& copy);

}  // namespace refit::run
