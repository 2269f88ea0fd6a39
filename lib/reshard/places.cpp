// Where a transfer begins and ends inside two ranks.
#include "refit/reshard/places.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace refit::reshard {
namespace {

/// Rows of the whole tensor and where the first of them is.
struct Stretch {
  Box box;
  Place place;
};

/// The part of `box` that a stretch has, and where it begins there.
Stretch part(const Stretch& stretch, const Box& box) {
  Stretch part{intersection(stretch.box, box), stretch.place};
  part.place.row += part.box.row - stretch.box.row;
  part.place.col += part.box.col - stretch.box.col;
  return part;
}

std::vector<Stretch> trainer_stretches(const Local& local, std::uint32_t tensor) {
  std::vector<Stretch> stretches;
  for (const Placed& placed : local.placed) {
    if (placed.tensor != tensor) continue;
    stretches.push_back(
        {placed.box, {local.tensors[placed.local].name, 0, placed.local_row, placed.local_col}});
  }
  return stretches;
}

/// The tensors of one layer: all that any parameter of it is made of.
plan::Request layer_request(const model::Inventory& model, int layer, const model::Recipe& recipe,
                            plan::MoeLayout moe_layout) {
  plan::Request request;
  request.model = model;
  std::erase_if(request.model.tensors, [&](const model::Tensor& tensor) { return tensor.layer != layer; });
  request.recipe = recipe;
  request.moe_layout = moe_layout;
  return request;
}

/// What a rank has of a tensor, row by row of the parameters that the engine makes of it.
std::vector<Stretch> engine_stretches(const Local& local, std::uint32_t tensor, const model::Recipe& recipe,
                                      plan::MoeLayout moe_layout) {
  std::vector<Stretch> stretches;
  for (const Placed& placed : local.placed) {
    if (placed.tensor != tensor) continue;
    const model::Tensor& own = local.model.tensors[placed.local];
    const plan::Plan plan = plan::build(layer_request(local.model, own.layer, recipe, moe_layout));
    for (const plan::Segment& segment : plan.segments) {
      if (segment.source == plan::kNone || plan.sources[segment.source].spec.name != own.spec.name) continue;
      // Local rows first, then those of the whole tensor.
      const Box rows =
          intersection({placed.local_row, placed.box.rows, 0, 1}, {segment.source_row, segment.rows, 0, 1});
      if (rows.empty()) continue;
      const Box box{placed.box.row + rows.row - placed.local_row, rows.rows, placed.box.col, placed.box.cols};
      stretches.push_back({box,
                           {plan.destinations[segment.destination].spec.name, segment.matrix,
                            segment.row_begin + rows.row - segment.source_row, placed.local_col}});
    }
  }
  return stretches;
}

}  // namespace

std::vector<PlacedTransfer> places(const Layout& trainer, const Layout& generator,
                                   const std::vector<Transfer>& transfers, const model::Recipe& recipe,
                                   plan::MoeLayout moe_layout) {
  std::map<std::uint32_t, std::vector<Stretch>> senders, receivers;
  for (const Transfer& transfer : transfers) {
    if (!senders.contains(transfer.from)) {
      senders[transfer.from] = trainer_stretches(trainer.local(transfer.from), transfer.tensor);
    }
    if (!receivers.contains(transfer.to)) {
      receivers[transfer.to] =
          engine_stretches(generator.local(transfer.to), transfer.tensor, recipe, moe_layout);
    }
  }
  std::vector<PlacedTransfer> placed;
  for (const Transfer& transfer : transfers) {
    for (const Stretch& held : senders[transfer.from]) {
      const Box sent = intersection(held.box, transfer.box);
      for (const Stretch& wanted : receivers[transfer.to]) {
        const Box box = intersection(wanted.box, sent);
        if (box.empty()) continue;
        placed.push_back({transfer, box, part(held, box).place, part(wanted, box).place});
      }
    }
  }
  return placed;
}

}  // namespace refit::reshard
