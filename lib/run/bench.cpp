// Interleaves the arms, collects their samples and judges their evidence.
#include "refit/run/bench.hpp"

#include <algorithm>

#include "refit/base/error.hpp"
#include "run/collect.hpp"
#include "run/copy_bandwidth.hpp"
#include "run/host_traffic.hpp"
#include "run/judge.hpp"
#include "run/trainer.hpp"

namespace refit::run {
namespace {

constexpr unsigned kLeastMeasuredSteps = 5;
constexpr std::byte kFirstPoison{0xA5}, kSecondPoison{0x5A};

class Bench {
 public:
  Bench(const BenchSpec& spec, const Progress& progress)
      : spec_(spec), progress_(progress), start_(Clock::now()), trainer_(spec), copies_(trainer_.pool()) {
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
    measure_copy_now(result.copy);
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
    measure_copy_now(result.copy);
    trainer_.finish();
    const plan::Plan& plan = trainer_.arm(kControl).plan;
    result.source_bytes = plan.source_bytes;
    result.destination_bytes = plan.destination_bytes;
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
    if (spec_.measure_copy) measure_copy(trainer_.sources(), trainer_.destinations(0), trainer_.pool(), copy);
    // The copy ran over the guards too.
    verify::fill_guards(verify::destination_extents(trainer_.arm(kControl).plan), trainer_.destinations(0));
  }

  void run_step(std::size_t arm, unsigned step, BenchResult& result) {
    ArmResult& out = arms_[arm];
    const bool slim = out.switches.offload == plan::Offload::slim;
    const bool pinned = out.switches.reference_swap == plan::ReferenceSwap::pinned;
    const HostTraffic& traffic = spec_.host_traffic;
    HostSeconds host;
    host.swap = copies_.run(2 * traffic.reference_swap_bytes, pinned);
    host.offload = copies_.run(slim ? traffic.offload_slim_bytes : traffic.offload_full_bytes, true);

    const bool verify = spec_.verify == VerifyWhen::every || (spec_.verify == VerifyWhen::first && step == 1);
    if (verify) trainer_.poison(arm, kFirstPoison);
    const RefitRecord record = trainer_.refit(arm, false);
    if (step > result.warmup) {
      collect(record, host, trainer_.arm(arm).plan, out);
    } else {
      (arm == kControl ? result.warmup_control : result.warmup_treatment).push_back(record.seconds);
    }
    out.peak_extra_bytes =
        std::max(out.peak_extra_bytes, record.trainer_peak_extra + record.generator.peak_extra_bytes);
    if (verify) verify_arm(arm, record.set, out);
  }

  /// The timed refit wrote over one poison; the same weights once more, over another and with evidence
  /// recorded.
  void verify_arm(std::size_t arm, std::uint32_t set, ArmResult& out) {
    const plan::Plan& plan = trainer_.arm(arm).plan;
    const std::vector<std::uint64_t> first =
        verify::destination_digests(plan, trainer_.destinations(set), trainer_.pool());
    trainer_.poison(arm, kSecondPoison);
    const RefitRecord record = trainer_.refit(arm, true, kSecondPoison);
    Judgement judgement{
        trainer_.arm(arm), trainer_.sources(), trainer_.destinations(record.set), first,
        kSecondPoison,     trainer_.version(), trainer_.committed_version(),      spec_.without};
    out.verdict.merge(judge(judgement, record, trainer_.pool()));
    ++out.verified_refits;
    out.fault_acted = out.fault_acted || record.fault_acted;
  }

  const BenchSpec& spec_;
  const Progress& progress_;
  Clock::time_point start_;
  Trainer trainer_;
  HostCopies copies_;
  std::array<ArmResult, 2> arms_;
};

}  // namespace

BenchResult run_bench(const BenchSpec& spec, const Progress& progress) {
  if (spec.steps == 0) fail_input("a bench of 0 steps was asked for; it takes at least 1");
  return Bench(spec, progress).run();
}

}  // namespace refit::run
