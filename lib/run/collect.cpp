// Phases carry NeMo-RL's timer names (nemo_rl/algorithms/grpo.py, refit_policy_generation).
#include "run/collect.hpp"

#include <algorithm>
#include <utility>

#include "refit/time/statistics.hpp"

namespace refit::run {
namespace {

StageSamples& stage_of(std::vector<StageSamples>& stages, Role role, std::string_view name,
                       std::size_t earlier_steps) {
  const auto found = std::find_if(stages.begin(), stages.end(),
                                  [&](const StageSamples& s) { return s.role == role && s.name == name; });
  if (found != stages.end()) return *found;
  // A stage that first appears now took no time before.
  stages.push_back({std::string(name), role, std::vector<double>(earlier_steps), 0, 0, std::nullopt});
  return stages.back();
}

/// Of one step, after `earlier` ones; a StageTotal or what a generator says of one.
template <typename Stage>
void add_stages(const std::vector<Stage>& step, Role role, std::size_t earlier,
                std::vector<StageSamples>& stages) {
  for (const Stage& s : step) {
    StageSamples& stage = stage_of(stages, role, s.name, earlier);
    stage.seconds.push_back(s.seconds);
    stage.bytes = s.bytes;
    stage.launches = s.launches;
  }
}

}  // namespace

void collect(const RefitRecord& record, const HostSeconds& host, const plan::Plan& plan, device::Kind kind,
             ArmResult& arm) {
  const std::size_t earlier = arm.trainer.wall.size();
  add_stages(record.trainer_stages, Role::trainer, earlier, arm.stages);
  add_stages(record.generator.stages, Role::generator, earlier, arm.stages);
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

void add_sample(const Timeline& step, std::size_t earlier, std::vector<StageSamples>& stages) {
  add_stages(step.stages(), Role::trainer, earlier, stages);
  for (StageSamples& s : stages) s.seconds.resize(earlier + 1);
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

void collect_kept(KeptRecord kept, Clock::time_point start, bool spans, ArmResult::RoleTime& role) {
  role.memory.clear();
  for (const MemoryChange& change : kept.memory) {
    // What a process holds as its part begins, it held before.
    const bool first = role.memory.empty();
    role.memory.push_back(
        {first ? 0 : std::chrono::duration<double>(change.at - start).count(), change.bytes});
  }
  if (spans) role.last = std::move(kept.recording);
}

void append(const device::CopySamples& now, CopyBandwidth& copy) {
  copy.array_bytes = now.array_bytes;
  const auto add = [](std::vector<double>& to, const std::vector<double>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  add(copy.samples, now.within);
  add(copy.to_host, now.to_host);
  add(copy.from_host, now.from_host);
  add(copy.peer, now.peer);
  copy.bytes_per_second = summarize(copy.samples).median;
}

}  // namespace refit::run
