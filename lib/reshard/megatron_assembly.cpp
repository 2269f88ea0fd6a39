// Source of the forms: Megatron-Bridge, models/conversion/param_mapping.py (merge_qkv_weights,
// merge_qkv_biases, GatedMLPMapping).
//
//   linear_qkv, for each key-value head:   with a gate on attention's output, q_proj has for each head
//     its query heads                      query rows, then gate rows, and linear_qkv:
//     key                                    its query heads' query rows
//     value                                  its query heads' gate rows
//                                            key, value
#include "reshard/megatron_assembly.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace refit::reshard {

std::uint32_t MegatronAssembly::new_tensor(const std::string& name, Shape shape, DType dtype) {
  local_.tensors.push_back({name, std::move(shape), dtype});
  return static_cast<std::uint32_t>(local_.tensors.size() - 1);
}

void MegatronAssembly::place(std::uint32_t tensor, const Box& box, std::uint32_t local,
                             std::uint64_t local_row) {
  local_.placed.push_back(
      {.tensor = tensor, .box = box, .local = local, .local_row = local_row, .local_col = 0});
}

void MegatronAssembly::add(const MegatronPlace& place, const Holding& holding) {
  switch (place.fusion) {
    case Fusion::none:
      return add_alone(place, holding);
    case Fusion::slab:
      return add_slab(place, holding);
    case Fusion::qkv:
    case Fusion::gate_up:
      return add_fused(place, holding);
  }
}

void MegatronAssembly::add_alone(const MegatronPlace& at, const Holding& holding) {
  const TensorSpec& whole = spec(holding.tensor);
  const std::uint32_t local = new_tensor(at.name, held_shape(whole.shape, holding), whole.dtype);
  std::uint64_t row = 0;
  for (const Box& box : holding.boxes) {
    place(holding.tensor, box, local, row);
    row += box.rows;
  }
}

void MegatronAssembly::add_slab(const MegatronPlace& at, const Holding& holding) {
  const TensorSpec& whole = spec(holding.tensor);
  const Shape shape = held_shape(whole.shape, holding);
  const std::uint64_t expert_rows = whole.shape[1];
  const std::uint64_t first = holding.boxes.front().row / expert_rows;
  std::size_t next = 0;
  for (std::uint64_t expert = 0; expert < shape[0]; ++expert) {
    const std::uint32_t local =
        new_tensor(at.name + std::to_string(expert), {shape[1], shape[2]}, whole.dtype);
    const Box rows{.row = (first + expert) * expert_rows,
                   .rows = expert_rows,
                   .col = holding.boxes.front().col,
                   .cols = holding.cols};
    // A box is either some rows of one expert or all rows of several.
    std::uint64_t row = 0;
    for (; next < holding.boxes.size(); ++next) {
      const Box mine = intersection(holding.boxes[next], rows);
      if (mine.empty()) break;
      place(holding.tensor, mine, local, row);
      row += mine.rows;
      if (mine.row + mine.rows < holding.boxes[next].row + holding.boxes[next].rows) break;
    }
  }
}

void MegatronAssembly::add_fused(const MegatronPlace& at, const Holding& holding) {
  const auto [found, is_new] = numbers_.emplace(at.name, fused_.size());
  if (is_new) {
    fused_.push_back(
        {.local = new_tensor(at.name, {}, spec(holding.tensor).dtype), .fusion = at.fusion, .parts = {}});
  }
  fused_[found->second].parts[at.part] = Fused::Part{holding.tensor, holding.boxes.front()};
}

bool MegatronAssembly::is_gated_query(const TensorSpec& query) const {
  return query.rows() == 2 * model_.dims.heads * model_.dims.head_dim;
}

void MegatronAssembly::place_gated_query(const Fused::Part& part, const Box& group, std::uint32_t local,
                                         std::uint64_t row) {
  const std::uint64_t heads = model_.dims.heads / tp_ / kv_heads_, head_dim = group.rows / heads / 2;
  for (std::uint64_t head = 0; head < heads; ++head) {
    Box box = group;
    box.rows = head_dim;
    box.row = group.row + 2 * head * head_dim;
    place(part.tensor, box, local, row + head * head_dim);
    box.row += head_dim;
    place(part.tensor, box, local, row + (heads + head) * head_dim);
  }
}

void MegatronAssembly::join(const Fused& fused) {
  const std::uint64_t groups = fused.fusion == Fusion::qkv ? std::max<std::uint64_t>(kv_heads_, 1) : 1;
  std::uint64_t row = 0;
  for (std::uint64_t group = 0; group < groups; ++group) {
    for (std::size_t part = 0; part < fused.parts.size(); ++part) {
      if (!fused.parts[part]) continue;
      Box box = fused.parts[part]->box;
      box.rows /= groups;
      box.row += group * box.rows;
      if (fused.fusion == Fusion::qkv && part == 0 && is_gated_query(spec(fused.parts[part]->tensor))) {
        place_gated_query(*fused.parts[part], box, fused.local, row);
      } else {
        place(fused.parts[part]->tensor, box, fused.local, row);
      }
      row += box.rows;
      const bool vector = spec(fused.parts[part]->tensor).shape.size() == 1;
      local_.tensors[fused.local].shape = vector ? Shape{row} : Shape{row, box.cols};
    }
  }
}

Local MegatronAssembly::take() {
  for (const Fused& fused : fused_) join(fused);
  std::sort(local_.placed.begin(), local_.placed.end(), [](const Placed& a, const Placed& b) {
    return std::tuple(a.tensor, a.box.row) < std::tuple(b.tensor, b.box.row);
  });
  return std::move(local_);
}

}  // namespace refit::reshard
