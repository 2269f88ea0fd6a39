// The loop over rounds.
#include "ranks/refit.hpp"

#include <algorithm>
#include <utility>

#include "run/moved_bytes.hpp"

namespace refit::ranks {
namespace {

constexpr std::uint64_t kGuardBytes = 256;

/// Direct places everything at once, as shuffle=fused does.
plan::Switches effective(plan::Switches switches) {
  if (switches.pipeline == plan::Pipeline::direct) switches.shuffle = plan::Shuffle::fused;
  return switches;
}

Lying lying_in(const Item& item, const std::byte* buffer, std::uint64_t element_bytes) {
  const reshard::Box& box = item.transfer->box;
  if (item.transfer->form != reshard::Form::quantized) {
    return {.values = buffer + item.values, .pitch = box.cols * element_bytes};
  }
  return {buffer + item.values, box.cols, buffer + item.scales, box.cols / quant::kBlock};
}

}  // namespace

Refit::Refit(const reshard::Reshard& plan, std::vector<Round> rounds, const model::Inventory& model,
             const Processes& processes, const plan::Switches& switches, const Equipment& equipment)
    : model_(model),
      switches_(effective(switches)),
      equipment_(equipment),
      direct_(switches.pipeline == plan::Pipeline::direct),
      fused_(switches_.shuffle == plan::Shuffle::fused),
      rounds_(std::move(rounds)),
      meetings_(rounds_.size()),
      times_(rounds_.size()) {
  const std::uint64_t held_before = equipment.ledger.current();
  if (!switches.double_buffer) slots_used_ = 1;
  const RoundSizes sizes = largest(rounds_);
  for (std::size_t s = 0; s < slots_used_; ++s) {
    slots_[s].send = equipment.backend.scratch(sizes.send + kGuardBytes, "a send buffer");
    slots_[s].receive = equipment.backend.scratch(sizes.receive + kGuardBytes, "a receive buffer");
  }
  std::uint64_t scratch_bytes = 0;
  if (equipment.generator != nullptr) {
    for (std::size_t r = 0; r < rounds_.size(); ++r) {
      for (const Message& message : rounds_[r].receive.messages) {
        for (const Item& item : message.items) meetings_[r].expect(*equipment.generator, *item.transfer);
      }
      for (const Item& item : rounds_[r].own) meetings_[r].expect(*equipment.generator, *item.transfer);
      meetings_[r].lay_out();
      scratch_bytes = std::max(scratch_bytes, meetings_[r].bytes());
    }
    hooks_.emplace();
    relayout_.emplace(equipment.generator->plan, switches_, equipment.backend, equipment.ledger, *hooks_);
    placer_.emplace(*equipment.generator, in_arena(equipment.generator->plan, equipment.destinations.data()),
                    &*relayout_);
  }
  if (direct_ && equipment.peers != nullptr) {
    const PeerWrites::Sides sides{equipment.trainer, equipment.sources, equipment.generator,
                                  equipment.destinations, equipment.process};
    writes_.emplace(plan, processes, sides, *equipment.peers, equipment.share_of, equipment.backend);
  }
  scratch_ = equipment.backend.scratch(scratch_bytes, "rows that wait for all of their columns");
  held_bytes_ = slots_used_ * (sizes.send + sizes.receive + 2 * kGuardBytes) + scratch_bytes +
                (writes_ ? writes_->staging_bytes() : 0);
  equipment.ledger.add(held_bytes_);
  most_extra_bytes_ = equipment.ledger.current() - held_before;
  for (std::size_t r = 0; r < rounds_.size(); ++r) lists_.push_back(lists_of(r));
}

Refit::~Refit() {
  if (under_way_ > 0) {
    equipment_.exchange.abandon({slots_[0].send, slots_[0].receive, slots_[1].send, slots_[1].receive});
  }
  equipment_.ledger.remove(held_bytes_);
}

void Refit::poison(std::byte value) {
  if (relayout_) relayout_->poison(value);
  for (const Slot& slot : slots_) {
    if (slot.send == nullptr) continue;
    for (const device::Memory* memory : {slot.send.get(), slot.receive.get()}) {
      equipment_.backend.fill(memory->bytes(), value);
      const verify::Extent all{"a buffer", 0, memory->bytes().size() - kGuardBytes};
      equipment_.backend.checker().fill_guards({&all, 1}, memory->bytes());
    }
  }
}

std::byte* Refit::send_buffer(std::size_t round) const {
  return slots_[round % slots_used_].send->bytes().data();
}

std::byte* Refit::receive_buffer(std::size_t round) const {
  return slots_[round % slots_used_].receive->bytes().data();
}

Refit::Lists Refit::lists_of(std::size_t r) {
  const Round& round = rounds_[r];
  const Meeting& meeting = meetings_[r];
  std::byte* const scratch = scratch_->bytes().data();
  Lists lists;
  const auto pack_item = [&](const Item& item) {
    std::byte* const buffer = send_buffer(r);
    ranks::pack(*equipment_.trainer, *item.transfer, equipment_.sources.data(), buffer + item.values,
                buffer + item.scales, quant_options(), lists.pack.tasks);
  };
  for (const Message& message : round.send.messages) {
    for (const Item& item : message.items) pack_item(item);
  }
  const auto place_item = [&](const Item& item, const std::byte* buffer) {
    const std::uint64_t size = size_of(model_.tensors[item.transfer->tensor].spec.dtype);
    placer_->place(item.transfer->tensor, item.transfer->box, lying_in(item, buffer, size), meeting, scratch,
                   lists.place.tasks);
  };
  if (placer_) {
    for (const Message& message : round.receive.messages) {
      for (const Item& item : message.items) place_item(item, receive_buffer(r));
    }
  }
  for (const Item& item : round.own) {
    if (!direct_) {
      pack_item(item);
      if (placer_) place_item(item, send_buffer(r));
      continue;
    }
    for (const Piece& piece : pieces_of(*equipment_.trainer, item.transfer->tensor, item.transfer->box,
                                        equipment_.sources.data())) {
      placer_->place(item.transfer->tensor, piece.box, piece.at, meeting, scratch, lists.place.tasks);
    }
  }
  if (placer_) placer_->place_met(meeting, scratch, lists.met.tasks);
  // What a stack without these switches does tensor by tensor.
  const bool cached = direct_ || switches_.loader == plan::Loader::cached;
  prepare(lists.pack, direct_ || switches_.quantize != plan::Quantize::per_tensor);
  prepare(lists.place, cached);
  prepare(lists.met, cached);
  return lists;
}

void Refit::prepare(List& list, bool one_call) {
  list.bytes = run::moved_by(list.tasks);
  if (one_call && !list.tasks.empty()) list.program = equipment_.backend.prepare(list.tasks);
}

void Refit::run_list(const List& list, run::Stages& stages) {
  if (list.program != nullptr) {
    equipment_.backend.run(*list.program);
    stages.add(list.bytes, 1);
    return;
  }
  for (const device::Task& task : list.tasks) {
    equipment_.backend.run({&task, 1});
    stages.add(run::moved_by(task), 1);
  }
}

void Refit::pack(std::size_t r, run::Stages& stages, Evidence* evidence) {
  times_[r].pack = now();
  stages.enter("pack");
  run_list(lists_[r].pack, stages);
  stages.enter("synchronize");
  equipment_.backend.finish(equipment_.deadline());
  if (evidence != nullptr) {
    stages.enter("verify");
    add_digests(equipment_.backend, rounds_[r].send, send_buffer(r), evidence->sent);
  }
  times_[r].start = now();
  stages.enter("exchange");
  const auto slot = static_cast<unsigned>(r % slots_used_);
  const std::vector<transport::Part> sends = parts_of(rounds_[r].send, send_buffer(r));
  const std::vector<transport::Part> receives = parts_of(rounds_[r].receive, receive_buffer(r));
  ++under_way_;
  if (equipment_.broadcast) {
    equipment_.exchange.broadcast(slot, sends, receives);
  } else {
    equipment_.exchange.start(slot, sends, receives);
  }
}

void Refit::place(std::size_t r, run::Stages& stages, Evidence* evidence) {
  stages.enter("exchange");
  equipment_.exchange.wait(static_cast<unsigned>(r % slots_used_), equipment_.deadline());
  --under_way_;
  times_[r].arrived = now();
  if (evidence != nullptr) {
    stages.enter("verify");
    add_digests(equipment_.backend, rounds_[r].receive, receive_buffer(r), evidence->received);
  }
  stages.enter("load");
  run_list(lists_[r].place, stages);
  if (!lists_[r].met.tasks.empty()) {
    stages.enter("quantize");
    run_list(lists_[r].met, stages);
  }
  times_[r].placed = now();
}

void Refit::run(run::Stages& stages, Evidence* evidence) {
  started_ = Clock::now();
  equipment_.group.doing("moving weights");
  if (writes_) writes_->run(stages);
  for (std::size_t r = 0; r < rounds_.size(); ++r) {
    if (r >= slots_used_) place(r - slots_used_, stages, evidence);
    pack(r, stages, evidence);
  }
  for (std::size_t r = rounds_.size() - std::min(rounds_.size(), slots_used_); r < rounds_.size(); ++r) {
    place(r, stages, evidence);
  }
  equipment_.group.doing("laying parameters out");
  if (relayout_) relayout_->run(equipment_.destinations, stages, nullptr);
  stages.enter("synchronize");
  equipment_.backend.finish(equipment_.deadline());
  if (evidence != nullptr) check_guards(*evidence);
}

void Refit::check_guards(Evidence& evidence) {
  for (std::size_t s = 0; s < slots_used_; ++s) {
    for (const device::Memory* memory : {slots_[s].send.get(), slots_[s].receive.get()}) {
      const verify::Extent all{"a buffer", 0, memory->bytes().size() - kGuardBytes};
      const verify::Result result = equipment_.backend.checker().check_guards({&all, 1}, memory->bytes());
      evidence.guards_intact = evidence.guards_intact && result.mismatches == 0;
    }
  }
}

}  // namespace refit::ranks
