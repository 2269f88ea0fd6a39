// From a request to a plan: parameters get their place in the arena, sources their segments.
#include "refit/plan/plan.hpp"

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "plan/digest.hpp"
#include "plan/names.hpp"
#include "plan/parameter.hpp"
#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"
#include "refit/layout/moe_shuffle.hpp"
#include "refit/layout/scale_128x4.hpp"

namespace refit::plan {
namespace {

/// Offsets of one side's tensors, guards included.
class Arena {
 public:
  [[nodiscard]] std::uint64_t place(const TensorSpec& spec) {
    constexpr std::uint64_t max_bytes = std::uint64_t{1} << 62;
    const std::uint64_t bytes = spec.bytes();
    if (bytes > max_bytes - end_) {
      fail_input(fmt::format("Tensor {} {} ends beyond 2^62 bytes.", spec.name, to_string(spec.shape)));
    }
    const std::uint64_t offset = end_;
    end_ = align_up(offset + bytes, kArenaAlignment) + kArenaAlignment;
    tensor_bytes_ += bytes;
    return offset;
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return end_; }
  [[nodiscard]] std::uint64_t tensor_bytes() const noexcept { return tensor_bytes_; }

 private:
  std::uint64_t end_ = kArenaAlignment;  // behind the guard that follows the last tensor
  std::uint64_t tensor_bytes_ = 0;
};

/// Where a source's first row goes.
struct Target {
  std::uint32_t destination = kNone;
  Parameter::Slot slot;
};

class Builder {
 public:
  explicit Builder(const Request& request)
      : request_(request), quantized_(model::select_quantized(request.model, request.recipe)) {
    plan_.quant = request.quant;
    plan_.moe_layout = request.moe_layout;
  }

  Plan build() {
    add_sources();
    add_destinations();
    add_segments();
    add_scale_padding();
    plan_.digest = digest_of(plan_);
    return std::move(plan_);
  }

 private:
  [[nodiscard]] const std::vector<model::Tensor>& tensors() const { return request_.model.tensors; }

  void add_sources() {
    Arena arena;
    plan_.sources.reserve(tensors().size());
    for (const model::Tensor& tensor : tensors()) {
      const std::uint64_t offset = arena.place(tensor.spec);
      plan_.sources.push_back(
          {.spec = tensor.spec, .offset = offset, .kind = tensor.kind, .layer = tensor.layer});
    }
    plan_.source_arena_bytes = arena.bytes();
    plan_.source_bytes = arena.tensor_bytes();
  }

  void add_destinations() {
    Arena arena;
    targets_.resize(tensors().size());
    const Sources sources = {
        .tensors = tensors(), .quantized = quantized_, .moe_layout = request_.moe_layout};
    for (const Group& group : group_sources(request_.model)) {
      add_parameter(arena, group, assemble(group, sources));
    }
    plan_.destination_arena_bytes = arena.bytes();
    plan_.destination_bytes = arena.tensor_bytes();
    check_unique_names();
  }

  void add_parameter(Arena& arena, const Group& group, Parameter parameter) {
    const auto index = static_cast<std::uint32_t>(plan_.destinations.size());
    Destination& weight = parameter.weight;
    weight.offset = arena.place(weight.spec);
    if (parameter.shuffled) weight.row_map = row_map(weight.matrix_rows, weight.gated);
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      targets_[group.members[i].source] = {.destination = index, .slot = parameter.slots[i]};
    }
    if (parameter.scale_layout == ScaleLayout::none) {
      plan_.destinations.push_back(std::move(weight));
      return;
    }
    weight.scale = index + 1;
    Destination scale = scale_of(weight, parameter.scale_layout);
    scale.offset = arena.place(scale.spec);
    scale.scale_of = index;
    plan_.destinations.push_back(std::move(weight));
    plan_.destinations.push_back(std::move(scale));
  }

  /// The scales' own parameter, behind the weight's.
  static Destination scale_of(const Destination& weight, ScaleLayout layout) {
    const std::uint64_t cols = weight.spec.cols() / quant::kBlock;
    const bool stacked = weight.spec.shape.size() == 3;
    Destination scale;
    scale.spec.name = weight.spec.name + "_scale";
    scale.spec.dtype = DType::u8;
    scale.matrices = weight.matrices;
    scale.matrix_rows = weight.matrix_rows;
    scale.row_map = weight.row_map;
    scale.scale_layout = layout;
    scale.layer = weight.layer;
    if (layout == ScaleLayout::row_major) {
      scale.matrix_bytes = weight.matrix_rows * cols;
      scale.spec.shape = {weight.matrices, weight.matrix_rows, cols};
    } else {
      scale.matrix_bytes = layout::scale_128x4_bytes(weight.matrix_rows, cols);
      scale.spec.shape = stacked ? Shape{weight.matrices, scale.matrix_bytes} : Shape{scale.matrix_bytes};
    }
    return scale;
  }

  /// One map for each row count and form; w2 has the order of a w13 without gate.
  std::uint32_t row_map(std::uint64_t rows, bool gated) {
    const auto [known, is_new] =
        row_maps_.emplace(std::pair(rows, gated), static_cast<std::uint32_t>(plan_.row_maps.size()));
    if (is_new) {
      plan_.row_maps.push_back(
          layout::inverse(layout::trtllm_w13_rows(static_cast<std::uint32_t>(rows), gated)));
    }
    return known->second;
  }

  void check_unique_names() const {
    std::unordered_set<std::string_view> names;
    names.reserve(plan_.destinations.size());
    for (const Destination& destination : plan_.destinations) {
      if (!names.insert(destination.spec.name).second) {
        fail_input(fmt::format(
            "Two parameters of the engine would be named {}: the model lists a tensor twice, or one that "
            "already has the name of a fused parameter or of a scale.",
            destination.spec.name));
      }
    }
  }

  void add_segments() {
    plan_.segments.reserve(tensors().size());
    for (std::size_t i = 0; i < tensors().size(); ++i) {
      const model::Tensor& tensor = tensors()[i];
      const Target& target = targets_[i];
      Segment segment;
      segment.op = op_of(i);
      segment.source = static_cast<std::uint32_t>(i);
      segment.cols = tensor.spec.cols();
      segment.destination = target.destination;
      segment.matrix = target.slot.matrix;
      segment.row_begin = target.slot.row_begin;
      if (is_expanded_slab(tensor, target)) {
        add_slab_segments(tensor, segment);
        continue;
      }
      segment.rows = tensor.spec.rows();
      segment.wire_name = tensor.spec.name;
      plan_.segments.push_back(std::move(segment));
    }
  }

  /// A slab under another name is taken apart; under its own name it is copied as it is.
  [[nodiscard]] bool is_expanded_slab(const model::Tensor& tensor, const Target& target) const {
    const bool slab =
        tensor.kind == model::Kind::expert_gate_up_slab || tensor.kind == model::Kind::expert_down_slab;
    return slab && plan_.destinations[target.destination].spec.name != tensor.spec.name;
  }

  void add_slab_segments(const model::Tensor& slab, const Segment& common) {
    const Destination& destination = plan_.destinations[common.destination];
    for (std::uint64_t expert = 0; expert < destination.matrices; ++expert) {
      Segment segment = common;
      segment.source_row = expert * destination.matrix_rows;
      segment.rows = destination.matrix_rows;
      segment.matrix = expert;
      segment.wire_name = slab_wire_name(slab, expert);
      plan_.segments.push_back(std::move(segment));
    }
  }

  [[nodiscard]] Op op_of(std::size_t source) const {
    const model::Tensor& tensor = tensors()[source];
    if (quantized_[source]) return Op::quantize;
    const bool rounded = request_.router_bias_bf16 && tensor.kind == model::Kind::router_bias &&
                         tensor.spec.dtype == DType::f32;
    return rounded ? Op::round_bf16 : Op::copy;
  }

  /// Rows between a tiled scale matrix's last row and the next multiple of 128: no source writes them.
  void add_scale_padding() {
    for (std::uint32_t i = 0; i < plan_.destinations.size(); ++i) {
      const Destination& scale = plan_.destinations[i];
      if (scale.scale_layout != ScaleLayout::tiled_128x4 || scale.matrix_bytes == 0) continue;
      const std::uint64_t padded_rows = layout::padded_scale_rows(scale.matrix_rows);
      if (padded_rows == scale.matrix_rows) continue;
      for (std::uint64_t matrix = 0; matrix < scale.matrices; ++matrix) {
        Segment segment;
        segment.op = Op::zero;
        segment.rows = padded_rows - scale.matrix_rows;
        segment.cols = scale.matrix_bytes / padded_rows;
        segment.destination = i;
        segment.matrix = matrix;
        segment.row_begin = scale.matrix_rows;
        plan_.segments.push_back(std::move(segment));
      }
    }
  }

  const Request& request_;
  std::vector<bool> quantized_;
  std::vector<Target> targets_;  // of each source
  std::map<std::pair<std::uint64_t, bool>, std::uint32_t> row_maps_;
  Plan plan_;
};

}  // namespace

Plan build(const Request& request) {
  return Builder(request).build();
}

std::uint64_t scale_offset(const Destination& scale, std::uint64_t stored_row, std::uint64_t column) {
  if (scale.scale_layout == ScaleLayout::row_major) {
    return stored_row * (scale.matrix_bytes / scale.matrix_rows) + column;
  }
  const std::uint64_t padded_cols = scale.matrix_bytes / layout::padded_scale_rows(scale.matrix_rows);
  return layout::scale_128x4_offset(stored_row, column, padded_cols);
}

std::string_view name_of(MoeLayout layout) noexcept {
  return names::of(names::moe_layout, layout);
}

std::optional<MoeLayout> parse_moe_layout(std::string_view name) noexcept {
  return names::parse(names::moe_layout, name);
}

}  // namespace refit::plan
