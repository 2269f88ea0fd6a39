// Phases carry NeMo-RL's timer names (nemo_rl/algorithms/grpo.py, refit_policy_generation).
#include "run/collect.hpp"

#include <algorithm>

namespace refit::run {
namespace {

StageSamples& stage_of(ArmResult& arm, Role role, const std::string& name, std::size_t earlier_steps) {
  const auto found = std::find_if(arm.stages.begin(), arm.stages.end(),
                                  [&](const StageSamples& s) { return s.role == role && s.name == name; });
  if (found != arm.stages.end()) return *found;
  // A stage that first appears now took no time before.
  arm.stages.push_back({name, role, std::vector<double>(earlier_steps), 0, 0, std::nullopt});
  return arm.stages.back();
}

void add_stage(ArmResult& arm, Role role, const std::string& name, double seconds, std::uint64_t bytes,
               std::uint64_t launches, std::size_t earlier_steps) {
  StageSamples& stage = stage_of(arm, role, name, earlier_steps);
  stage.seconds.push_back(seconds);
  stage.bytes = bytes;
  stage.launches = launches;
}

}  // namespace

void collect(const RefitRecord& record, const HostSeconds& host, const plan::Plan& plan, device::Kind kind,
             ArmResult& arm) {
  const std::size_t earlier = arm.trainer.wall.size();
  for (const StageTotal& s : record.trainer_stages) {
    add_stage(arm, Role::trainer, std::string(s.name), s.seconds, s.bytes, s.launches, earlier);
  }
  for (const CommittedRecord::Stage& s : record.generator.stages) {
    add_stage(arm, Role::generator, s.name, s.seconds, s.bytes, s.launches, earlier);
  }
  for (StageSamples& s : arm.stages) s.seconds.resize(earlier + 1);
  arm.trainer.wall.push_back(record.seconds);
  arm.trainer.unattributed.push_back(record.trainer_unattributed);
  arm.generator.wall.push_back(record.generator.wall);
  arm.generator.unattributed.push_back(record.generator.unattributed);

  PhaseSamples& transfer = arm.phases["prepare_for_generation/transfer_and_update_weights"];
  transfer.seconds.push_back(record.seconds);
  transfer.floor_bytes = plan.floor_bytes();
  PhaseSamples& offload = arm.phases["prepare_for_generation/offload_before_refit"];
  offload.seconds.push_back(host.offload);
  offload.stand_in = kind == device::Kind::cpu;
  arm.phases["prepare_for_generation/total"].seconds.push_back(host.offload + record.seconds);
  PhaseSamples& swap = arm.phases["policy_and_reference_logprobs/reference_swap"];
  swap.seconds.push_back(host.swap);
  swap.stand_in = kind == device::Kind::cpu;

  arm.messages = record.messages;
  arm.message_bytes = record.message_bytes;
  arm.handles_opened = record.generator.handles_opened;
  arm.handles_left = record.generator.handles_left;
}

void collect_device_times(const RefitRecord& record, std::vector<DeviceTime>& times) {
  times.clear();
  for (const device::StageTime& s : record.trainer_device_stages) times.push_back({Role::trainer, s});
  for (const device::StageTime& s : record.generator.device_stages) times.push_back({Role::generator, s});
}

void add_device_times(const std::vector<DeviceTime>& times, ArmResult& arm) {
  for (StageSamples& stage : arm.stages) {
    for (const DeviceTime& time : times) {
      if (time.role == stage.role && time.stage.name == stage.name) stage.device_seconds = time.stage.seconds;
    }
  }
}

}  // namespace refit::run
