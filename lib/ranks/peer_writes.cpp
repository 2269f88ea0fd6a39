// Planning which matrices are made where; the run is a loop.
#include "ranks/peer_writes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"
#include "refit/layout/scale_128x4.hpp"
#include "run/moved_bytes.hpp"

namespace refit::ranks {
namespace {

/// Steps whose staging images exist at the same time.
constexpr std::size_t kImages = 2;

/// Copies that follow each other on both sides become one.
void join(std::vector<device::PeerCopy>& copies) {
  std::sort(copies.begin(), copies.end(), [](const auto& a, const auto& b) { return a.to < b.to; });
  std::vector<device::PeerCopy> joined;
  for (const device::PeerCopy& copy : copies) {
    if (!joined.empty() && joined.back().to + joined.back().bytes == copy.to &&
        joined.back().from + joined.back().bytes == copy.from) {
      joined.back().bytes += copy.bytes;
    } else {
      joined.push_back(copy);
    }
  }
  copies = std::move(joined);
}

bool same_boxes(const GeneratorShare& a, const GeneratorShare& b) {
  const auto same = [](const reshard::Placed& x, const reshard::Placed& y) {
    return x.tensor == y.tensor && x.box == y.box && x.local == y.local && x.local_row == y.local_row &&
           x.local_col == y.local_col;
  };
  return a.plan.digest == b.plan.digest && std::equal(a.local.placed.begin(), a.local.placed.end(),
                                                      b.local.placed.begin(), b.local.placed.end(), same);
}

}  // namespace

PeerWrites::PeerWrites(const reshard::Reshard& plan, const Processes& processes, const Sides& sides,
                       const Peers& peers,
                       const std::function<std::unique_ptr<GeneratorShare>(std::uint32_t process)>& share_of,
                       device::Backend& backend)
    : processes_(processes),
      sides_(sides),
      model_(sides.trainer != nullptr ? sides.trainer->model : sides.generator->model),
      backend_(backend) {
  for (const reshard::Transfer& transfer : plan.sends) {
    const std::uint32_t to = processes.of_generator(transfer.to);
    if (transfer.form == reshard::Form::quantized_late && cuts_blocks(transfer.box)) {
      fail_input(
          fmt::format("{}: a trainer rank holds part of a block of 32, so no rank alone can quantize it; "
                      "--transport nccl can move it",
                      model_.tensors[transfer.tensor].spec.name));
    }
    if (to == sides.process || peers_.contains(to)) continue;
    Peer& peer = peers_[to];
    peer.share = share_of(to);
    peer.arena = peers.of(to);
    peer.like_own = sides.generator != nullptr && same_boxes(*peer.share, *sides.generator);
  }
  steps_ = steps_of(plan);
  std::uint64_t largest = 0;
  for (const bool for_size : {true, false}) {
    if (!for_size) staging_ = backend.scratch(kImages * largest, "images of a layer for other ranks");
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      Step& step = steps_[s];
      step.tasks.clear();
      step.copies.clear();
      step.staging = 0;
      plan_own(step);
      for (auto& [process, peer] : peers_) {
        // Any address will do to count.
        std::byte* const images =
            for_size ? sides.sources.data() : staging_->bytes().data() + s % kImages * largest;
        plan_peer(step, process, peer, images);
      }
      largest = for_size ? std::max(largest, align_up(step.staging, plan::kArenaAlignment)) : largest;
    }
  }
  for (Step& step : steps_) {
    join(step.copies);
    step.bytes = run::moved_by(step.tasks);
    if (!step.tasks.empty()) step.program = backend.prepare(step.tasks);
  }
}

std::vector<PeerWrites::Step> PeerWrites::steps_of(const reshard::Reshard& plan) const {
  std::map<int, Step> by_layer;  // rounds mix layers; matrices are whole when a layer's boxes come together
  for (const reshard::Transfer& transfer : plan.sends) {
    by_layer[model_.tensors[transfer.tensor].layer].transfers.push_back(&transfer);
  }
  std::vector<Step> steps;
  for (auto& [layer, step] : by_layer) steps.push_back(std::move(step));
  // Embeddings and head (layer -1) last: they take long and often stay, and links would wait for them.
  if (!steps.empty() && by_layer.begin()->first < 0)
    std::rotate(steps.begin(), steps.begin() + 1, steps.end());
  return steps;
}

std::map<PeerWrites::Matrix, bool> PeerWrites::filled(const Step& step, const GeneratorShare& share,
                                                      std::uint32_t process) const {
  std::map<Matrix, std::uint64_t> elements;
  for (const reshard::Transfer* transfer : step.transfers) {
    if (processes_.of_generator(transfer->to) != process) continue;
    for (const Fed& fed : fed_by(share, transfer->tensor, transfer->box)) {
      elements[{fed.segment->destination, fed.segment->matrix}] += (fed.end - fed.begin) * fed.part.cols;
    }
  }
  std::map<Matrix, bool> filled;
  for (const auto& [matrix, count] : elements) {
    const plan::Destination& to = share.plan.destinations[matrix.first];
    // Rows of padding are the receiver's own, and a copy of the whole matrix would write them.
    const bool padded = to.scale != plan::kNone &&
                        share.plan.destinations[to.scale].scale_layout == plan::ScaleLayout::tiled_128x4 &&
                        layout::padded_scale_rows(to.matrix_rows) != to.matrix_rows;
    filled[matrix] = !padded && count == to.matrix_rows * to.spec.cols();
  }
  return filled;
}

void PeerWrites::place(Step& step, const GeneratorShare& share, std::uint32_t process,
                       const MatrixAddress& address) const {
  const Placer placer(share, address);
  for (const reshard::Transfer* transfer : step.transfers) {
    if (processes_.of_generator(transfer->to) != process) continue;
    for (const Piece& piece :
         pieces_of(*sides_.trainer, transfer->tensor, transfer->box, sides_.sources.data())) {
      placer.place(transfer->tensor, piece.box, piece.at, {}, nullptr, step.tasks);
    }
  }
}

void PeerWrites::plan_own(Step& step) {
  if (sides_.generator == nullptr || sides_.trainer == nullptr) return;
  place(step, *sides_.generator, sides_.process,
        in_arena(sides_.generator->plan, sides_.destinations.data()));
}

void PeerWrites::plan_peer(Step& step, std::uint32_t process, Peer& peer, std::byte* staging) {
  const plan::Plan& plan = peer.share->plan;
  const MatrixAddress in_peer = in_arena(plan, peer.arena.data());
  const std::map<Matrix, bool> here =
      peer.like_own ? filled(step, *sides_.generator, sides_.process) : std::map<Matrix, bool>{};
  std::map<Matrix, std::byte*> images;  // null: made elsewhere already
  const auto copy = [&](std::uint32_t destination, std::uint64_t matrix, const std::byte* from) {
    step.copies.push_back({in_peer(destination, matrix), from, plan.destinations[destination].matrix_bytes});
  };
  const auto image = [&](std::uint32_t destination, std::uint64_t matrix, bool follows) {
    if (!follows) step.staging = align_up(step.staging, plan::kArenaAlignment);
    std::byte* const at = staging + step.staging;
    step.staging += plan.destinations[destination].matrix_bytes;
    images[{destination, matrix}] = at;
    copy(destination, matrix, at);
  };
  std::vector<Matrix> staged, staged_scales;
  for (const auto& [matrix, whole] : filled(step, *peer.share, process)) {
    if (!whole) continue;
    const std::uint32_t scale = plan.destinations[matrix.first].scale;
    const auto own = here.find(matrix);
    if (own != here.end() && own->second) {
      const MatrixAddress in_own = in_arena(plan, sides_.destinations.data());
      images[matrix] = nullptr;
      copy(matrix.first, matrix.second, in_own(matrix.first, matrix.second));
      if (scale != plan::kNone) copy(scale, matrix.second, in_own(scale, matrix.second));
      continue;
    }
    staged.push_back(matrix);
    if (scale != plan::kNone) staged_scales.emplace_back(scale, matrix.second);
  }
  // Matrices that follow each other in the peer's parameters follow each other here, so that one copy takes
  // them all.
  for (const std::vector<Matrix>* list : {&staged, &staged_scales}) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      const auto& [destination, matrix] = (*list)[i];
      const bool follows = i > 0 && (*list)[i - 1] == Matrix{destination, matrix - 1};
      image(destination, matrix, follows);
    }
  }
  place(step, *peer.share, process, [&](std::uint32_t destination, std::uint64_t matrix) {
    const auto found = images.find({destination, matrix});
    return found == images.end() ? in_peer(destination, matrix) : found->second;
  });
}

void PeerWrites::run(run::Stages& stages) {
  stages.enter("transfer");
  std::array<std::uint64_t, kImages> copied{};  // the last copies out of each image
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    std::uint64_t& last = copied[s % kImages];
    if (step.staging > 0 && last > 0) backend_.after_copies(last);
    if (step.program != nullptr) {
      backend_.run(*step.program);
      stages.add(step.bytes, 1);
    }
    if (step.copies.empty()) continue;
    last = backend_.copy_to_peers(step.copies);
    for (const device::PeerCopy& copy : step.copies) stages.add(2 * copy.bytes, 1);
  }
}

}  // namespace refit::ranks
