// Interleaves the arms, collects their samples and judges their evidence.
#include "refit/run/bench.hpp"

#include <algorithm>

#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "run/collect.hpp"
#include "run/judge.hpp"
#include "run/trainer.hpp"

namespace refit::run {
namespace {

constexpr unsigned kLeastMeasuredSteps = 5;
constexpr std::byte kFirstPoison{0xA5}, kSecondPoison{0x5A};

class Bench {
 public:
  Bench(const BenchSpec& spec, const MakeBackend& make_backend, const Progress& progress)
      : spec_(spec),
        progress_(progress),
        start_(Clock::now()),
        trainer_(spec, make_backend(spec.backend)),
        backend_(trainer_.backend()) {
    arms_[kControl].switches = spec.control;
    arms_[kTreatment].switches = spec.treatment;
    for (std::size_t a = 0; a < arms_.size(); ++a) {
      const Arm& arm = trainer_.arm(a);
      const bool staged = arm.switches.pipeline == plan::Pipeline::staged;
      arms_[a].inapplicable = plan::inapplicable(arm.switches);
      arms_[a].wire_bytes = staged ? arm.wire.bytes : arm.plan.destination_bytes;
      arms_[a].buckets = arm.wire.buckets.size();
    }
  }

  BenchResult run() {
    BenchResult result;
    result.warmup = std::min(spec_.warmup, spec_.steps);
    result.backend = spec_.backend;
    result.device = backend_.describe();
    measure_copy_now(result.copy);
    result.clocks_before = backend_.clocks();
    for (unsigned step = 1; step <= spec_.steps; ++step) {
      if (progress_) progress_(step - 1, spec_.steps, "refit");
      trainer_.update_weights();
      // ABBA: odd steps begin with the control, even ones with the treatment.
      for (const std::size_t arm :
           {step % 2 == 1 ? kControl : kTreatment, step % 2 == 1 ? kTreatment : kControl}) {
        if (arm == kControl || !spec_.control_alone) run_step(arm, step, result);
      }
      if (step > result.warmup) ++result.steps;
      if (out_of_time(step, result)) {
        result.stopped_early = true;
        break;
      }
    }
    result.clocks_after = backend_.clocks();
    measure_copy_now(result.copy);
    recall();
    trainer_.finish();
    const plan::Plan& plan = trainer_.arm(kControl).plan;
    result.source_bytes = plan.source_bytes;
    result.destination_bytes = plan.destination_bytes;
    for (std::size_t a = 0; a < arms_.size(); ++a) add_device_times(device_times_[a], arms_[a]);
    result.control = std::move(arms_[kControl]);
    result.treatment = std::move(arms_[kTreatment]);
    result.seconds = elapsed();
    return result;
  }

 private:
  [[nodiscard]] double elapsed() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

  [[nodiscard]] bool out_of_time(unsigned step, const BenchResult& result) const {
    return step < spec_.steps && result.steps >= kLeastMeasuredSteps &&
           elapsed() + elapsed() / step > spec_.time_budget_s;
  }

  void measure_copy_now(CopyBandwidth& copy) {
    if (!spec_.measure_copy) return;
    const std::span<std::byte> parameters = trainer_.destinations(0);
    const device::CopySamples now = backend_.measure_copy(trainer_.sources(), parameters);
    // The copy ran over the guards too.
    backend_.checker().fill_guards(verify::destination_extents(trainer_.arm(kControl).plan), parameters);
    backend_.finish(Deadline::after(Seconds(spec_.timeout_s)));
    copy.threads = spec_.backend.kind == device::Kind::cpu ? spec_.backend.threads : 0;
    append(now, copy);
  }

  void run_step(std::size_t arm, unsigned step, BenchResult& result) {
    ArmResult& out = arms_[arm];
    const HostSeconds host = move_host_traffic(spec_.host_traffic, out.switches, backend_);
    const bool verify = spec_.verify == VerifyWhen::every || (spec_.verify == VerifyWhen::first && step == 1);
    if (verify) trainer_.poison(arm, kFirstPoison);
    const bool warming_up = step <= result.warmup;
    const RefitRecord record = trainer_.refit(arm, {.profile = step == result.warmup});
    if (!warming_up) {
      collect(record, host, trainer_.arm(arm).plan, spec_.backend.kind, out);
    } else {
      collect_device_times(record, device_times_[arm]);
      (arm == kControl ? result.warmup_control : result.warmup_treatment).push_back(record.seconds);
    }
    out.peak_extra_bytes =
        std::max(out.peak_extra_bytes, record.trainer_peak_extra + record.generator.peak_extra_bytes);
    if (verify) verify_arm(arm, record.set, out);
  }

  void recall() {
    for (const std::size_t arm : {kControl, kTreatment}) {
      if (arms_[arm].trainer.wall.empty()) continue;
      auto [trainer, generator] = trainer_.kept(arm);
      // Both processes read the steady clock of one host.
      const Clock::time_point start = trainer.recording.start;
      collect_kept(std::move(trainer), start, spec_.keep_spans > 0, arms_[arm].trainer);
      collect_kept(std::move(generator), start, spec_.keep_spans > 0, arms_[arm].generator);
    }
  }

  /// The timed refit wrote over one poison; the same weights once more, over another and with evidence
  /// recorded.
  void verify_arm(std::size_t arm, std::uint32_t set, ArmResult& out) {
    const plan::Plan& plan = trainer_.arm(arm).plan;
    const std::vector<std::uint64_t> first =
        device::destination_digests(backend_.checker(), plan, trainer_.destinations(set));
    trainer_.poison(arm, kSecondPoison);
    const RefitRecord record = trainer_.refit(arm, {.verify = true, .poison = kSecondPoison});
    Judgement judgement{
        trainer_.arm(arm), trainer_.sources(), trainer_.destinations(record.set), first,
        kSecondPoison,     trainer_.version(), trainer_.committed_version(),      spec_.without};
    const Clock::time_point begin = Clock::now();
    out.verdict.merge(judge(judgement, record, backend_, trainer_.pool()));
    out.verify_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    ++out.verified_refits;
    out.parameters_digest = digest(std::as_bytes(std::span(first)));
    out.fault_acted = out.fault_acted || record.fault_acted;
  }

  const BenchSpec& spec_;
  const Progress& progress_;
  Clock::time_point start_;
  Trainer trainer_;
  device::Backend& backend_;
  std::array<ArmResult, 2> arms_;
  std::array<std::vector<DeviceTime>, 2> device_times_;
};

}  // namespace

BenchResult run_bench(const BenchSpec& spec, const MakeBackend& make_backend, const Progress& progress) {
  if (spec.steps == 0) fail_input("a bench of 0 steps was asked for; it takes at least 1");
  return Bench(spec, make_backend, progress).run();
}

}  // namespace refit::run
