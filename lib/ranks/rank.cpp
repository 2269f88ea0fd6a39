// Allocating, refitting, verifying.
#include "ranks/rank.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "run/collect.hpp"

namespace refit::ranks {
namespace {

constexpr std::byte kSecondPoison{0x5A};
/// Bytes a second that a busy CPU verifies at least: making the weights, quantizing and comparing them.
constexpr double kSlowestVerification = 20e6;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string("?");
}

/// Bytes of one refit by peer; what stays is at the rank's own place.
void count_bytes(const reshard::Reshard& plan, const Setup& setup, bool broadcast, RankArm& row) {
  for (const reshard::Transfer& transfer : plan.sends) {
    const std::uint64_t bytes = reshard::wire_bytes(transfer, setup.model);
    if (broadcast) {
      for (std::uint64_t& sent : row.sent) sent += bytes;
    } else {
      row.sent[setup.processes.of_generator(transfer.to)] += bytes;
    }
  }
  for (const reshard::Transfer& transfer : plan.receives) {
    row.received[setup.processes.of_trainer(transfer.from)] += reshard::wire_bytes(transfer, setup.model);
  }
}

/// A broadcast is sent once, however many hear it.
std::uint64_t link_bytes(const RankArm& row, std::uint32_t self, bool broadcast) {
  const std::uint64_t received = of_others(row.received, self);
  return broadcast ? received : std::max(received, of_others(row.sent, self));
}

/// What the rank has to read of its own weights for one refit: what is sent to several ranks, once for each.
std::uint64_t floor_bytes(const reshard::Reshard& plan, const model::Inventory& model) {
  std::uint64_t bytes = 0;
  for (const reshard::Transfer& transfer : plan.sends) {
    bytes += transfer.box.elements() * size_of(model.tensors[transfer.tensor].spec.dtype);
  }
  return bytes;
}

std::string as_bytes(std::uint64_t value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

std::uint64_t number_in(std::string_view bytes, std::size_t index) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof(value), sizeof(value));
  return value;
}

}  // namespace

Rank::Rank(const Setup& setup, std::array<reshard::Reshard, 2> plans, transport::Group& group,
           transport::Exchange* exchange, std::unique_ptr<device::Backend> backend)
    : setup_(setup),
      group_(group),
      backend_(std::move(backend)),
      pool_(setup.spec.bench.backend.threads),
      stages_(*backend_, timeline_) {
  timeline_.keep_spans(setup.spec.bench.keep_spans);
  const std::uint32_t self = group.rank();
  row_.rank = self;
  row_.host = host_name();
  group.doing("allocating");
  if (const auto rank = setup.trainer_rank(self)) {
    trainer_.emplace(setup.model, *setup.trainer, *rank);
    sources_ = backend_->allocate(trainer_->arena_bytes, "the trainer's weights");
    backend_->fill(sources_->bytes(), std::byte{0});  // vocabulary padding
    backend_->fill_weights(trainer_->weights(sources_->bytes()), setup.spec.bench.seed);
    backend_->checker().fill_guards(trainer_->extents, sources_->bytes());
    for (const verify::Extent& extent : trainer_->extents) row_.source_bytes += extent.bytes;
  }
  for (std::size_t a = 0; a < arms_.size(); ++a) {
    arms_[a] = std::make_unique<Arm>();
    Arm& arm = *arms_[a];
    arm.plan = std::move(plans[a]);
    arm.row = a == 0 ? &row_.control : &row_.treatment;
    if (const auto rank = setup.generator_rank(self)) {
      arm.generator.emplace(setup.model, *setup.generator, *rank, setup.request(a));
      row_.destination_bytes = arm.generator->plan.destination_bytes;
      if (destinations_ == nullptr) {
        destinations_ =
            backend_->allocate(arm.generator->plan.destination_arena_bytes, "the generator's parameters");
        backend_->checker().fill_guards(verify::destination_extents(arm.generator->plan),
                                        destinations_->bytes());
      }
    }
    arm.row->sent.assign(group.size(), 0);
    arm.row->received.assign(group.size(), 0);
    count_bytes(arm.plan, setup, setup.broadcasts(a), *arm.row);
    arm.row->link_bytes = link_bytes(*arm.row, self, setup.broadcasts(a));
    arm.row->floor_bytes = floor_bytes(arm.plan, setup.model) + row_.destination_bytes;
  }
  if (setup.spec.peer_memory) peers_.emplace(group, *backend_, destinations_.get(), row_.host, deadline());
  for (std::size_t a = 0; a < arms_.size(); ++a) equip(a, exchange);
  backend_->finish(deadline());
}

void Rank::equip(std::size_t a, transport::Exchange* exchange) {
  Arm& arm = *arms_[a];
  const bool writes_to_peers = peers_ && setup_.switches(a).pipeline == plan::Pipeline::direct;
  std::vector<Round> rounds;
  if (!writes_to_peers) rounds = setup_.rounds(a, arm.plan, group_.rank());
  if (exchange == nullptr) {
    const plan::Request request = setup_.request(a);
    arm.simulated = std::make_unique<SimulatedPeers>(rounds, setup_.model, *backend_, request.quant);
    exchange = arm.simulated.get();
  }
  Equipment equipment{*backend_, group_, *exchange, arm.ledger};
  equipment.broadcast = setup_.broadcasts(a);
  equipment.timeout_s = setup_.spec.bench.timeout_s;
  equipment.process = group_.rank();
  if (trainer_) {
    equipment.trainer = &*trainer_;
    equipment.sources = sources_->bytes();
  }
  if (arm.generator) {
    equipment.generator = &*arm.generator;
    equipment.destinations = destinations_->bytes();
  }
  if (writes_to_peers) {
    equipment.peers = &*peers_;
    equipment.share_of = [this, a](std::uint32_t process) { return share_of(a, process); };
  }
  arm.refit.emplace(arm.plan, std::move(rounds), setup_.model, setup_.processes, setup_.switches(a),
                    equipment);
  arm.row->most_extra_bytes = arm.refit->most_extra_bytes();
}

std::unique_ptr<GeneratorShare> Rank::share_of(std::size_t a, std::uint32_t process) const {
  return std::make_unique<GeneratorShare>(setup_.model, *setup_.generator,
                                          setup_.generator_rank(process).value(), setup_.request(a));
}

Deadline Rank::deadline() const {
  return Deadline::after(std::chrono::duration<double>(setup_.spec.bench.timeout_s));
}

Deadline Rank::time_to_verify() const {
  const double bytes = static_cast<double>(setup_.model.bytes());
  return Deadline::after(
      std::chrono::duration<double>(setup_.spec.bench.timeout_s + bytes / kSlowestVerification));
}

void Rank::measure_copy(run::CopyBandwidth& copy) {
  if (!sources_ || !destinations_) return;
  run::append(backend_->measure_copy(sources_->bytes(), destinations_->bytes()), copy);
  backend_->checker().fill_guards(verify::destination_extents(arms_[0]->generator->plan),
                                  destinations_->bytes());
  backend_->finish(deadline());
}

void Rank::update_weights() {
  ++step_;
  group_.doing("updating weights");
  if (trainer_) {
    backend_->update_weights(trainer_->weights(sources_->bytes()), setup_.spec.bench.seed, step_);
  }
  backend_->finish(deadline());
}

void Rank::run_once(std::size_t a, Evidence* evidence) {
  if (SimulatedPeers* const peers = arms_[a]->simulated.get()) {
    arms_[1 - a]->simulated->release();
    peers->begin(setup_.spec.bench.seed, step_, time_to_verify());
  }
  // Others may write here from the barrier on: nothing that was asked for before may still be under way.
  backend_->finish(deadline());
  group_.doing("waiting for the start");
  group_.barrier(deadline());
  group_.barrier(deadline());  // who had to wait long for the first may come out of it late
  stages_.start();
  arms_[a]->refit->run(stages_, evidence);
  stages_.stop();
  group_.doing("committing");
  ++version_;
  const std::vector<std::string> versions = group_.all_gather(as_bytes(version_), deadline());
  for (std::uint32_t rank = 0; rank < versions.size(); ++rank) {
    const std::uint64_t theirs = number_in(versions[rank], 0);
    if (theirs != version_) {
      fail_runtime(fmt::format("rank {} committed version {}, rank {} version {}", rank, theirs,
                               group_.rank(), version_));
    }
  }
}

void Rank::refit(std::size_t a, bool measured) {
  Arm& arm = *arms_[a];
  const run::HostSeconds host =
      run::move_host_traffic(setup_.spec.bench.host_traffic, setup_.switches(a), *backend_);
  arm.ledger.reset_peak();
  run_once(a, nullptr);
  arm.row->peak_extra_bytes = std::max(arm.row->peak_extra_bytes, arm.ledger.peak());
  if (arm.ledger.peak() > arm.row->most_extra_bytes) {
    fail_runtime(fmt::format("rank {} held {} bytes beside its weights, at most {} were planned",
                             group_.rank(), arm.ledger.peak(), arm.row->most_extra_bytes));
  }
  if (!measured) return;
  run::add_sample(stages_.timeline(), arm.row->seconds.size(), arm.row->stages);
  if (setup_.spec.bench.keep_spans > 0) arm.row->last = timeline_.recording();
  if (arm.simulated == nullptr) arm.row->rounds = arm.refit->times();
  arm.row->seconds.push_back(stages_.timeline().wall());
  arm.row->unattributed.push_back(stages_.timeline().unattributed());
  arm.row->offload.push_back(host.offload);
  arm.row->swap.push_back(host.swap);
}

void Rank::poison(std::size_t a, std::byte value) {
  Arm& arm = *arms_[a];
  if (arm.generator) {
    const std::vector<verify::Extent> extents = verify::destination_extents(arm.generator->plan);
    backend_->checker().poison(extents, destinations_->bytes(), value);
    backend_->checker().fill_guards(extents, destinations_->bytes());
  }
  arm.refit->poison(value);
}

void Rank::verify(std::size_t a) {
  Arm& arm = *arms_[a];
  std::vector<std::uint64_t> first;
  if (arm.generator) {
    first = device::destination_digests(backend_->checker(), arm.generator->plan, destinations_->bytes());
    arm.row->parameters_digest = digest(std::as_bytes(std::span(first)));
  }
  poison(a, kSecondPoison);
  Evidence evidence;
  run_once(a, &evidence);
  verify::Verdict verdict;
  if (arm.refit->writes_to_peers()) {
    judge_mapping(a, verdict);
  } else {
    judge_wire(a, evidence, verdict);
  }
  group_.doing("verifying");
  // Ranks of one host share its memory, and each needs room for what it should have got.
  const bool in_turn = setup_.spec.bench.backend.kind == device::Kind::cpu;
  for (std::uint32_t turn = 0; turn < (in_turn ? group_.size() : 1); ++turn) {
    if (!in_turn || turn == group_.rank()) judge_parameters(a, first, verdict);
    if (in_turn) group_.barrier(time_to_verify());
  }
  arm.row->verdict.merge(std::move(verdict));
}

void Rank::judge_wire(std::size_t a, const Evidence& evidence, verify::Verdict& verdict) {
  std::string sent(group_.size() * sizeof(std::uint64_t), '\0');
  for (const auto& [peer, sum] : evidence.sent)
    std::memcpy(sent.data() + peer * sizeof(sum), &sum, sizeof(sum));
  const std::vector<std::string> all = group_.all_gather(sent, deadline());
  ByPeer sent_here;
  if (SimulatedPeers* const peers = arms_[a]->simulated.get()) {
    sent_here = peers->digests();
    peers->release();  // judging needs the room
  } else {
    for (std::uint32_t peer = 0; peer < all.size(); ++peer)
      sent_here[peer] = number_in(all[peer], group_.rank());
  }
  verify::Result& wire = verdict[verify::Check::wire];
  for (const auto& [peer, sum] : evidence.received) {
    wire.bytes += arms_[a]->row->received[peer];
    const std::uint64_t theirs = sent_here[peer];
    if (theirs == sum) continue;
    wire.add({fmt::format("(messages of rank {} to rank {})", peer, group_.rank()), 0,
              fmt::format("{:016x}", theirs), fmt::format("{:016x}", sum), 1,
              "arrived with another digest than they were sent with"});
  }
  if (!evidence.guards_intact) {
    verdict[verify::Check::coverage].add(
        {"(buffers)", 0, "guard bytes", "other bytes", 1, "written beyond the end of a buffer"});
  }
}

/// Nothing was sent, so two ranks have to see the same bytes in the same memory: each looks at the next
/// one's.
void Rank::judge_mapping(std::size_t a, verify::Verdict& verdict) {
  const auto seen_in = [&](const plan::Plan& plan, std::span<const std::byte> arena) {
    const std::vector<std::uint64_t> digests = device::destination_digests(backend_->checker(), plan, arena);
    return digest(std::as_bytes(std::span(digests)));
  };
  const Arm& arm = *arms_[a];
  const std::uint64_t own = arm.generator ? seen_in(arm.generator->plan, destinations_->bytes()) : 0;
  const std::vector<std::string> all = group_.all_gather(as_bytes(own), deadline());
  const std::uint32_t next = (group_.rank() + 1) % group_.size();
  const std::span<const std::byte> theirs = peers_->of(next);
  if (theirs.empty()) return;
  const std::unique_ptr<GeneratorShare> share = share_of(a, next);
  const std::uint64_t seen = seen_in(share->plan, theirs), said = number_in(all[next], 0);
  verify::Result& wire = verdict[verify::Check::wire];
  wire.bytes += share->plan.destination_bytes;
  if (seen == said) return;
  wire.add({fmt::format("(parameters of rank {} as rank {} sees them)", next, group_.rank()), 0,
            fmt::format("{:016x}", said), fmt::format("{:016x}", seen), 1,
            "two processes see different bytes in the same memory"});
}

std::unique_ptr<device::Memory> Rank::reference(const Arm& arm) {
  const GeneratorShare& share = *arm.generator;
  auto memory = backend_->scratch(share.plan.source_arena_bytes,
                                  "the weights that a rank has to get (--verify off needs none)");
  const std::vector<device::WeightBox> boxes = share.reference(memory->bytes());
  const std::uint64_t seed = setup_.spec.bench.seed;
  backend_->fill_weights(boxes, seed);
  for (std::uint64_t step = 1; step <= step_; ++step) backend_->update_weights(boxes, seed, step);
  backend_->finish(deadline());
  return memory;
}

void Rank::judge_parameters(std::size_t a, const std::vector<std::uint64_t>& first,
                            verify::Verdict& verdict) {
  const Arm& arm = *arms_[a];
  device::Checker& checker = backend_->checker();
  verify::Result& coverage = verdict[verify::Check::coverage];
  if (trainer_) coverage.merge(checker.check_guards(trainer_->extents, sources_->bytes()));
  if (!arm.generator) return;
  const plan::Plan& plan = arm.generator->plan;
  const std::unique_ptr<device::Memory> wanted = reference(arm);
  verify::InPlace in_place = checker.check_in_place(plan, wanted->bytes(), destinations_->bytes(), {});
  verdict[verify::Check::quantizer].merge(std::move(in_place.quantizer));
  verdict[verify::Check::layout].merge(std::move(in_place.layout));
  const std::vector<std::uint64_t> second =
      device::destination_digests(checker, plan, destinations_->bytes());
  coverage.merge(checker.check_poison(plan, first, second, destinations_->bytes(), kSecondPoison));
  coverage.merge(checker.check_guards(verify::destination_extents(plan), destinations_->bytes()));
}

}  // namespace refit::ranks
