// Marks the parameters torn before anything can be written to them, and whole after everything was.
#include "run/generator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "refit/base/error.hpp"
#include "refit/transport/child_process.hpp"
#include "run/spec_codec.hpp"

namespace refit::run {
namespace {

/// Between refits the trainer updates and verifies weights; it may take its time, but not for ever.
constexpr double kIdleTimeout = 3600;
constexpr std::uint64_t kPageBytes = 4096;

}  // namespace

Generator::Generator(Conversation trainer, const MakeBackend& make_backend)
    : trainer_(std::move(trainer)), make_backend_(make_backend) {}

void Generator::set_up() {
  const transport::Message hello = trainer_.expect(MessageType::hello);
  spec_ = decode_spec(hello.body);
  trainer_.set_timeout(spec_.timeout_s);
  spec_.backend.timeout_s *= Conversation::kDeviceShare;
  backend_ = make_backend_(spec_.backend);
  hooks_ = make_hooks(spec_.fault);
  for (Timeline& timeline : timelines_) timeline.keep_spans(spec_.keep_spans);
  for (MemoryLedger& ledger : ledgers_) ledger.keep_changes(kMostMemoryPoints);
  arms_.reserve(2);
  arms_.emplace_back(spec_, spec_.control);
  arms_.emplace_back(spec_, spec_.treatment);

  ReadyRecord ready;
  for (int i = 0; i < 2; ++i) ready.plan_digest[i] = arms_[static_cast<std::size_t>(i)].plan.digest;
  ready.parameter_bytes = arms_[0].plan.destination_arena_bytes;
  const bool shadow = std::any_of(arms_.begin(), arms_.end(),
                                  [](const Arm& a) { return a.switches.commit == plan::Commit::shadow; });
  ready.sets = shadow ? 2 : 1;
  page_ = transport::SharedMemory::create(kPageBytes, "the generator's version page");
  VersionPage(page_.bytes()).store(VersionPage::kTorn);
  std::vector<int> fds = {page_.fd()};
  for (std::uint32_t s = 0; s < ready.sets; ++s) {
    sets_.push_back(backend_->allocate(ready.parameter_bytes, "the generator's parameters"));
    backend_->fill(sets_.back()->bytes(), std::byte{0});
    const device::Memory::Handle handle = sets_.back()->handle();
    ready.handles.push_back({handle.token, handle.fd >= 0});
    if (handle.fd >= 0) fds.push_back(handle.fd);
  }
  backend_->finish(trainer_.device_deadline());
  trainer_.send(MessageType::ready, encode(ready), fds);
}

void Generator::serve() {
  set_up();
  // Manifests of the staged arms come once, before the first refit.
  for (;;) {
    transport::Message message = trainer_.next(kIdleTimeout);
    switch (static_cast<MessageType>(message.type)) {
      case MessageType::goodbye:
        return;
      case MessageType::begin:
        refit(decode_begin(message.body));
        break;
      case MessageType::recall: {
        const RecallRecord recall = decode_recall(message.body);
        if (recall.arm >= timelines_.size()) fail_runtime("the trainer asked for the stages of no arm");
        trainer_.send(MessageType::recording,
                      encode(kept_of(timelines_[recall.arm], ledgers_[recall.arm], *backend_)));
        break;
      }
      case MessageType::manifest: {
        const std::size_t arm = message.body.empty() ? 2 : static_cast<std::size_t>(message.body[0]);
        if (arm >= arms_.size()) fail_runtime("the trainer sent a manifest for an arm that does not exist");
        plan::check_manifest(std::string_view(message.body).substr(1), arms_[arm].plan, arms_[arm].wire);
        receivers_[arm] = std::make_unique<Receiver>(arms_[arm].plan, arms_[arm].wire, arms_[arm].switches,
                                                     *backend_, ledgers_[arm], *hooks_);
        break;
      }
      default:
        fail_runtime(fmt::format("the trainer sent '{}' between refits",
                                 name_of(static_cast<MessageType>(message.type))));
    }
  }
}

std::uint32_t Generator::set_to_write(const Arm& arm) const {
  return arm.switches.commit == plan::Commit::shadow ? 1 - active_set_ : active_set_;
}

std::string Generator::state_in_words(const Arm& arm, std::uint64_t version) const {
  if (arm.switches.commit == plan::Commit::shadow && whole_version_ != VersionPage::kTorn) {
    return fmt::format("version {} was not completed, version {} is whole and stays in use", version,
                       whole_version_);
  }
  return fmt::format("version {} was not completed, the parameters are marked torn", version);
}

void Generator::refit(const BeginRecord& begin) {
  if (begin.arm >= arms_.size()) fail_runtime("the trainer began a refit of an arm that does not exist");
  const Arm& arm = arms_[begin.arm];
  const std::uint32_t set = set_to_write(arm);
  VersionPage page(page_.bytes());
  // With commit=shadow the set in use stays whole until the commit, so its version stays valid.
  if (arm.switches.commit == plan::Commit::in_place) {
    page.store(VersionPage::kTorn);
    whole_version_ = VersionPage::kTorn;
  }
  ledgers_[begin.arm].reset_peak();
  const device::HandleCounts handles_before = backend_->handles();
  CommittedRecord record;
  Stages stages(*backend_, begin.verify ? verified_timeline_ : timelines_[begin.arm]);
  if (begin.profile) backend_->profile(true);
  stages.start();
  if (!begin.verify) ledgers_[begin.arm].begin_refit();
  try {
    stages.enter("wait");
    trainer_.send(MessageType::begun, encode(BegunRecord{set}));
    if (arm.switches.pipeline == plan::Pipeline::staged) {
      if (!receivers_[begin.arm]) fail_runtime("the trainer began a staged refit without a manifest");
      receive_staged(arm, begin, stages, record);
    } else {
      receive_direct(stages);
    }
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}; {}", error.what(), state_in_words(arm, begin.version)));
  }
  if (begin.verify) {
    stages.enter("verify");
    record.destination_digests =
        device::destination_digests(backend_->checker(), arm.plan, sets_[set]->bytes());
  }
  stages.enter("commit");
  record.version = hooks_->committed_version(begin.version);
  whole_version_ = record.version;
  active_set_ = set;
  page.store(record.version);
  stages.stop();
  ledgers_[begin.arm].end_refit();

  record.wall = stages.timeline().wall();
  record.unattributed = stages.timeline().unattributed();
  for (const StageTotal& stage : stages.timeline().stages()) {
    record.stages.push_back({std::string(stage.name), stage.seconds, stage.bytes, stage.launches});
  }
  if (begin.profile) {
    record.device_stages = backend_->stage_times();
    backend_->profile(false);
  }
  record.fault_acted = hooks_->acted();
  record.peak_extra_bytes = ledgers_[begin.arm].peak() + backend_->own_bytes();
  const device::HandleCounts handles = backend_->handles();
  record.handles_opened = handles.opened - handles_before.opened;
  record.handles_left = handles.opened - handles.closed;
  trainer_.send(MessageType::committed, encode(record));
}

void Generator::receive_staged(const Arm& arm, const BeginRecord& begin, Stages& stages,
                               CommittedRecord& record) {
  Receiver& receiver = *receivers_[begin.arm];
  receiver.begin(sets_[set_to_write(arm)]->bytes(), begin.verify ? &record.evidence : nullptr);
  if (begin.verify) receiver.poison(std::byte{begin.poison});
  for (;;) {
    stages.enter("wait");
    transport::Message message = trainer_.next();
    const auto type = static_cast<MessageType>(message.type);
    if (type == MessageType::complete) break;
    if (type != MessageType::bucket) {
      fail_runtime(fmt::format("the trainer sent '{}' in the middle of a refit", name_of(type)));
    }
    receiver.bucket(trainer_, std::move(message), stages);
  }
  receiver.finish(stages, trainer_.device_deadline());
}

void Generator::report_failure(const std::string& text) noexcept {
  try {
    trainer_.send(MessageType::failure, text);
  } catch (const Error&) {
    // The trainer is gone: our own exit says the rest.
  }
}

void Generator::receive_direct(Stages& stages) {
  stages.enter("wait");
  (void)trainer_.expect(MessageType::complete);
}

void run_generator(int fd, const MakeBackend& make_backend) {
  // A dead trainer shows as a closed socket, and this side then says what state its parameters are in.
  transport::outlive_parent();
  // The first wait is for a trainer that builds its plan; the hello then says what limit it wants.
  constexpr double kFirstTimeout = 60;
  Conversation trainer(transport::UnixChannel(transport::UniqueFd(fd), "trainer"), kFirstTimeout);
  Generator generator(std::move(trainer), make_backend);
  try {
    generator.serve();
  } catch (const Error& error) {
    generator.report_failure(error.what());
    throw;
  }
}

}  // namespace refit::run
