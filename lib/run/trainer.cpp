// Starting, agreeing, refitting, ending.
#include "run/trainer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "run/first_weights.hpp"
#include "run/host_view.hpp"
#include "run/spec_codec.hpp"

namespace refit::run {
namespace {

/// A child that was asked to leave has this long.
constexpr double kFarewellSeconds = 10;

/// Awake, because sleeping takes longer than some refits.
void hold_up(Clock::time_point begin, double share) {
  const Clock::time_point now = Clock::now();
  const auto until = now + std::chrono::duration_cast<Clock::duration>((now - begin) * share);
  while (Clock::now() < until) {
  }
}

}  // namespace

Trainer::Trainer(const BenchSpec& spec, std::unique_ptr<device::Backend> backend)
    : spec_(spec), backend_(std::move(backend)), pool_(spec.backend.threads), hooks_(make_hooks(spec.fault)) {
  arms_.reserve(2);
  arms_.emplace_back(spec, spec.control);
  arms_.emplace_back(spec, spec.treatment);
  const plan::Plan& plan = arms_[kControl].plan;
  for (Timeline& timeline : timelines_) timeline.keep_spans(spec.keep_spans);
  for (MemoryLedger& ledger : ledgers_) ledger.keep_changes(kMostMemoryPoints);
  sources_ = backend_->allocate(plan.source_arena_bytes, "the trainer's weights");
  make_first_weights(spec, plan, *backend_, sources_->bytes());
  backend_->checker().fill_guards(verify::source_extents(plan), sources_->bytes());
  start_generator();
  for (std::size_t a = 0; a < arms_.size(); ++a) {
    const Arm& arm = arms_[a];
    if (arm.switches.pipeline == plan::Pipeline::direct) continue;
    generator_->send(MessageType::manifest,
                     std::string(1, static_cast<char>(a)) + plan::encode_manifest(arm.plan, arm.wire));
    senders_[a] = std::make_unique<Sender>(arm.plan, arm.wire, arm.switches, sources_->bytes(), *backend_,
                                           ledgers_[a], *hooks_);
  }
}

Trainer::~Trainer() = default;  // the child's own destructor kills and reaps it if it still runs

void Trainer::start_generator() {
  auto [mine, theirs] = transport::UnixChannel::pair("generator", "trainer");
  child_.emplace(transport::ChildProcess::spawn(spec_.generator_program, spec_.generator_arguments,
                                                std::move(theirs).take_socket()));
  generator_.emplace(std::move(mine), spec_.timeout_s);
  try {
    generator_->send(MessageType::hello, encode_spec(spec_));
    transport::Message message = generator_->expect(MessageType::ready);
    accept(decode_ready(message.body), message);
  } catch (const Error& error) {
    explain(error);
  }
}

void Trainer::accept(const ReadyRecord& ready, transport::Message& message) {
  for (std::size_t a = 0; a < arms_.size(); ++a) {
    if (ready.plan_digest[a] != arms_[a].plan.digest) {
      fail_runtime(fmt::format("trainer and generator computed different plans ({} and {})",
                               digest_hex(arms_[a].plan.digest), digest_hex(ready.plan_digest[a])));
    }
  }
  const auto with_fd = static_cast<std::size_t>(
      std::ranges::count_if(ready.handles, [](const auto& handle) { return handle.has_fd; }));
  if (ready.handles.size() != ready.sets || ready.sets == 0 || message.fds.size() != with_fd + 1)
    fail_runtime("the generator's ready came without its memory");
  auto fd = message.fds.begin();
  page_ =
      transport::SharedMemory::map(std::move(*fd++), sizeof(std::uint64_t), "the generator's version page");
  for (const ReadyRecord::SetHandle& handle : ready.handles) {
    sets_.push_back(backend_->open(handle.token, handle.has_fd ? std::move(*fd++) : transport::UniqueFd(),
                                   ready.parameter_bytes, "the generator's parameters"));
    backend_->checker().fill_guards(verify::destination_extents(arms_[kControl].plan), sets_.back()->bytes());
  }
}

void Trainer::update_weights() {
  const plan::Plan& plan = arms_[kControl].plan;
  if (hooks_->planted()) {
    with_host_view(*backend_, sources_->bytes(),
                   [&](std::span<std::byte> host) { hooks_->before_update(plan, host); });
  }
  backend_->update_weights(device::weight_boxes(plan, sources_->bytes()), spec_.seed, ++step_);
  // A refit begins when the weights are there, not while they are being made.
  backend_->finish(generator_->device_deadline());
}

std::uint32_t Trainer::set_to_write(std::size_t index) const {
  return arms_[index].switches.commit == plan::Commit::shadow ? 1 - active_set_ : active_set_;
}

void Trainer::poison(std::size_t index, std::byte value) {
  const std::vector<verify::Extent> extents = verify::destination_extents(arms_[index].plan);
  const std::span<std::byte> parameters = sets_[set_to_write(index)]->bytes();
  backend_->checker().poison(extents, parameters, value);
  // What one arm did to a guard is not the next one's fault.
  backend_->checker().fill_guards(extents, parameters);
  backend_->finish(generator_->device_deadline());
}

RefitRecord Trainer::refit(std::size_t index, const Look& look) {
  const Arm& arm = arms_[index];
  RefitRecord record;
  ledgers_[index].reset_peak();
  const std::uint64_t messages = generator_->messages(), message_bytes = generator_->message_bytes();
  const std::uint64_t version = ++version_;
  Stages stages(*backend_, look.verify ? verified_timeline_ : timelines_[index]);
  if (look.profile) backend_->profile(true);
  const Clock::time_point begin = Clock::now();
  try {
    stages.start();
    if (!look.verify) ledgers_[index].begin_refit();
    stages.enter("wait");
    generator_->send(MessageType::begin,
                     encode(BeginRecord{static_cast<std::uint32_t>(index), version, look.verify, look.profile,
                                        std::to_integer<std::uint8_t>(look.poison)}));
    record.set = decode_begun(generator_->expect(MessageType::begun).body).set;
    if (record.set != set_to_write(index))
      fail_runtime("the generator writes another parameter set than was due");
    if (arm.switches.pipeline == plan::Pipeline::staged) {
      senders_[index]->run(*generator_, stages, look.verify ? &record.sent : nullptr);
    } else {
      refit_direct(index, look.verify, stages, record);
    }
    stages.enter("publish");
    generator_->send(MessageType::complete, {});
    stages.enter("wait");
    const transport::Message committed = generator_->expect(MessageType::committed);
    hold_up(begin, index == kControl ? spec_.control_held_up : spec_.treatment_held_up);
    if (senders_[index] != nullptr) senders_[index]->end(stages);
    stages.stop();
    ledgers_[index].end_refit();
    record.generator = decode_committed(committed.body);
  } catch (const Error& error) {
    explain(error);
  }
  if (look.profile) {
    record.trainer_device_stages = backend_->stage_times();
    backend_->profile(false);
  }
  active_set_ = record.set;
  record.seconds = stages.timeline().wall();
  record.trainer_unattributed = stages.timeline().unattributed();
  record.trainer_stages = stages.timeline().stages();
  record.messages = generator_->messages() - messages;
  record.message_bytes = generator_->message_bytes() - message_bytes;
  record.fault_acted = hooks_->acted() || record.generator.fault_acted;
  record.trainer_peak_extra = ledgers_[index].peak() + backend_->own_bytes();
  return record;
}

std::vector<device::Task> Trainer::direct_tasks(const Arm& arm, std::uint32_t set,
                                                std::vector<verify::Executed>& executed) const {
  std::vector<device::Task> tasks;
  tasks.reserve(arm.plan.segments.size());
  for (std::uint32_t s = 0; s < arm.plan.segments.size(); ++s) {
    const plan::Segment& segment = arm.plan.segments[s];
    if (!hooks_->execute(arm.plan, segment)) continue;
    tasks.push_back(
        device::task_of(arm.plan, s, 0, segment.rows, sources_->bytes().data(), sets_[set]->bytes().data()));
    executed.push_back({s, 0, segment.rows});
  }
  return tasks;
}

void Trainer::refit_direct(std::size_t index, bool verify, Stages& stages, RefitRecord& record) {
  const Arm& arm = arms_[index];
  stages.enter("prepare");
  std::unique_ptr<device::Program>& program = programs_[index][record.set];
  if (program == nullptr || hooks_->planted() || verify) {
    std::vector<verify::Executed> executed;
    program = backend_->prepare(direct_tasks(arm, record.set, executed));
    if (verify) record.executed = std::move(executed);
  }
  stages.enter("transfer");
  backend_->run(*program);
  stages.add(arm.plan.floor_bytes(), 1);
  stages.enter("synchronize");
  backend_->finish(generator_->device_deadline());
}

std::array<KeptRecord, 2> Trainer::kept(std::size_t index) {
  try {
    generator_->send(MessageType::recall, encode(RecallRecord{static_cast<std::uint32_t>(index)}));
    return {kept_of(timelines_[index], ledgers_[index], *backend_),
            decode_kept(generator_->expect(MessageType::recording).body)};
  } catch (const Error& error) {
    explain(error);
  }
}

void Trainer::finish() {
  // The generator frees what is open here, so this side closes it first.
  for (auto& of_arm : programs_) of_arm = {};
  sets_.clear();
  try {
    generator_->send(MessageType::goodbye, {});
  } catch (const Error& error) {
    explain(error);
  }
  const transport::ExitState state = child_->wait(Deadline::after(Seconds(kFarewellSeconds)));
  if (state.signaled || state.code != 0) {
    fail_runtime(fmt::format("the generator ended with {}", state.describe()));
  }
}

std::string Trainer::end_of_generator() {
  const Deadline deadline = Deadline::after(Seconds(1));
  do {
    if (const auto state = child_->poll()) return state->describe();
    ::usleep(1000);
  } while (!deadline.passed());
  child_->wait(Deadline::after(Seconds(0)));
  return "still running, and stopped now";
}

void Trainer::explain(const Error& error) {
  // Its own words come first, where it could still send them: a failure message may wait behind what was due.
  std::string reason = error.what();
  try {
    while (generator_->ready()) (void)generator_->next(0.1);
  } catch (const Error& words) {
    if (reason.find("the generator failed") == std::string::npos &&
        std::string_view(words.what()).find("the generator failed") != std::string_view::npos) {
      reason = words.what();
    }
  }
  throw Error(error.kind(), fmt::format("{} (the generator: {})", reason, end_of_generator()));
}

}  // namespace refit::run
