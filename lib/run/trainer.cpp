// Starting, agreeing, refitting, ending.
#include "run/trainer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "run/spec_codec.hpp"
#include "run/weights.hpp"

namespace refit::run {
namespace {

/// A child that was asked to leave has this long.
constexpr double kFarewellSeconds = 10;

}  // namespace

Trainer::Trainer(const BenchSpec& spec) : spec_(spec), pool_(spec.threads), hooks_(make_hooks(spec.fault)) {
  arms_.reserve(2);
  arms_.emplace_back(spec, spec.control);
  arms_.emplace_back(spec, spec.treatment);
  const plan::Plan& plan = arms_[kControl].plan;
  sources_ = transport::SharedMemory::create(plan.source_arena_bytes, "the trainer's weights");
  fill(plan, sources_.bytes(), spec.seed, pool_);
  verify::fill_guards(verify::source_extents(plan), sources_.bytes());
  start_generator();
  for (std::size_t a = 0; a < arms_.size(); ++a) {
    const Arm& arm = arms_[a];
    if (arm.switches.pipeline == plan::Pipeline::direct) {
      items_[a] = cut_into_items(arm.plan);
      continue;
    }
    generator_->send(MessageType::manifest,
                     std::string(1, static_cast<char>(a)) + plan::encode_manifest(arm.plan, arm.wire));
    senders_[a] = std::make_unique<Sender>(arm.plan, arm.wire, arm.switches, sources_.bytes(), pool_,
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
    const ReadyRecord ready = decode_ready(message.body);
    for (std::size_t a = 0; a < arms_.size(); ++a) {
      if (ready.plan_digest[a] != arms_[a].plan.digest) {
        fail_runtime(fmt::format("trainer and generator computed different plans ({} and {})",
                                 digest_hex(arms_[a].plan.digest), digest_hex(ready.plan_digest[a])));
      }
    }
    if (message.fds.size() != ready.sets + 1) fail_runtime("the generator's ready came without its memory");
    for (std::uint32_t s = 0; s < ready.sets; ++s) {
      sets_.push_back(transport::SharedMemory::map(std::move(message.fds[s]), ready.parameter_bytes,
                                                   "the generator's parameters"));
      verify::fill_guards(verify::destination_extents(arms_[kControl].plan), sets_.back().bytes());
    }
    page_ = transport::SharedMemory::map(std::move(message.fds[ready.sets]), sizeof(std::uint64_t),
                                         "the generator's version page");
  } catch (const Error& error) {
    explain(error);
  }
}

void Trainer::update_weights() {
  hooks_->before_update(arms_[kControl].plan, sources_.bytes());
  update(arms_[kControl].plan, sources_.bytes(), spec_.seed, ++step_, pool_);
}

std::uint32_t Trainer::set_to_write(std::size_t index) const {
  return arms_[index].switches.commit == plan::Commit::shadow ? 1 - active_set_ : active_set_;
}

void Trainer::poison(std::size_t index, std::byte value) {
  const std::vector<verify::Extent> extents = verify::destination_extents(arms_[index].plan);
  const std::span<std::byte> parameters = sets_[set_to_write(index)].bytes();
  verify::poison(extents, parameters, value, pool_);
  // What one arm did to a guard is not the next one's fault.
  verify::fill_guards(extents, parameters);
}

RefitRecord Trainer::refit(std::size_t index, bool verify, std::byte poison) {
  const Arm& arm = arms_[index];
  RefitRecord record;
  ledgers_[index].reset_peak();
  const std::uint64_t messages = generator_->messages(), message_bytes = generator_->message_bytes();
  const std::uint64_t version = ++version_;
  Timeline timeline;
  try {
    timeline.start();
    timeline.enter("wait");
    generator_->send(MessageType::begin, encode(BeginRecord{static_cast<std::uint32_t>(index), version,
                                                            verify, std::to_integer<std::uint8_t>(poison)}));
    record.set = decode_begun(generator_->expect(MessageType::begun).body).set;
    if (record.set != set_to_write(index))
      fail_runtime("the generator writes another parameter set than was due");
    if (arm.switches.pipeline == plan::Pipeline::staged) {
      senders_[index]->run(*generator_, timeline, verify ? &record.sent : nullptr);
    } else {
      refit_direct(arm, verify, timeline, record);
    }
    timeline.enter("publish");
    generator_->send(MessageType::complete, {});
    timeline.enter("wait");
    const transport::Message committed = generator_->expect(MessageType::committed);
    timeline.stop();
    record.generator = decode_committed(committed.body);
  } catch (const Error& error) {
    explain(error);
  }
  active_set_ = record.set;
  record.seconds = timeline.wall();
  record.trainer_unattributed = timeline.unattributed();
  record.trainer_stages = timeline.stages();
  record.messages = generator_->messages() - messages;
  record.message_bytes = generator_->message_bytes() - message_bytes;
  record.fault_acted = hooks_->acted() || record.generator.fault_acted;
  record.trainer_peak_extra = ledgers_[index].peak();
  return record;
}

void Trainer::refit_direct(const Arm& arm, bool verify, Timeline& timeline, RefitRecord& record) {
  const std::size_t index = static_cast<std::size_t>(&arm - arms_.data());
  timeline.enter("transfer");
  std::vector<WorkItem> kept;
  std::span<const WorkItem> items = items_[index];
  if (!spec_.fault.empty()) {
    for (const WorkItem& item : items_[index]) {
      if (hooks_->execute(arm.plan, arm.plan.segments[item.segment])) kept.push_back(item);
    }
    items = kept;
  }
  execute_items(arm.plan, items, sources_.bytes(), sets_[record.set].bytes(), pool_);
  timeline.add(arm.plan.floor_bytes(), 1);
  if (verify) record.executed.assign(items.begin(), items.end());
}

void Trainer::finish() {
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
