// Grouping sources and assembling parameters. Whatever cannot be assembled exactly is refused here, by name.
#include "plan/parameter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "plan/names.hpp"
#include "refit/base/error.hpp"
#include "refit/quant/mxfp8.hpp"

namespace refit::plan {
namespace {

using model::Tensor;

constexpr std::uint64_t tile_rows = 128;

std::string describe(const TensorSpec& spec) {
  return fmt::format("Tensor {} {}", spec.name, to_string(spec.shape));
}

/// Exactly one member for each part.
bool complete(const Group& group) {
  if (group.members.size() != group.parts) return false;
  std::vector<bool> present(group.parts);
  for (const Group::Member& member : group.members) present[member.part] = true;
  return std::find(present.begin(), present.end(), false) == present.end();
}

/// Members as parameters of their own.
void append_apart(std::vector<Group>& groups, const Group& group, const std::vector<Tensor>& tensors) {
  for (const Group::Member& member : group.members) {
    groups.push_back({.assembly = Assembly::whole,
                      .name = tensors[member.source].spec.name,
                      .parts = 1,
                      .members = {{.source = member.source, .part = 0}}});
  }
}

void check_quantizable(const TensorSpec& spec, std::size_t rank) {
  if (spec.dtype != DType::bf16) {
    fail_input(fmt::format("{} is {}; only BF16 weights can be quantized to MXFP8.", describe(spec),
                           name_of(spec.dtype)));
  }
  if (spec.shape.size() != rank) {
    fail_input(
        fmt::format("{} has {} dimensions; a weight of this kind can be quantized to MXFP8 with {} only.",
                    describe(spec), spec.shape.size(), rank));
  }
  if (spec.cols() % quant::kBlock != 0) {
    fail_input(fmt::format(
        "{} cannot be quantized to MXFP8: its last dimension is {}, which is not a multiple of {}.",
        describe(spec), spec.cols(), quant::kBlock));
  }
}

/// All members must be stored alike, or they cannot share one parameter.
void check_alike(const Group& group, const Sources& sources) {
  const auto first = group.members.front().source;
  const TensorSpec& like = sources.tensors[first].spec;
  const auto treatment = [](bool quantized) { return quantized ? "quantized" : "not quantized"; };
  for (const Group::Member& member : group.members) {
    const TensorSpec& spec = sources.tensors[member.source].spec;
    if (spec.dtype != like.dtype) {
      fail_input(fmt::format("{} is {}, but {} is {}; parts of {} must have one dtype.", describe(spec),
                             name_of(spec.dtype), like.name, name_of(like.dtype), group.name));
    }
    if (sources.quantized[member.source] != sources.quantized[first]) {
      fail_input(fmt::format("{} is {}, but {} is {}; parts of {} must be quantized together or not at all.",
                             describe(spec), treatment(sources.quantized[member.source]), like.name,
                             treatment(sources.quantized[first]), group.name));
    }
  }
}

bool is_quantized(const Group& group, const Sources& sources) {
  return sources.quantized[group.members.front().source];
}

const Tensor& tensor_of(const Group::Member& member, const Sources& sources) {
  return sources.tensors[member.source];
}

/// A parameter of `matrices` x `rows` rows, dtype and layer from the first member.
Parameter make_parameter(const Group& group, const Sources& sources, Shape shape, std::uint64_t matrices,
                         std::uint64_t rows) {
  const Tensor& first = tensor_of(group.members.front(), sources);
  const bool quantized = is_quantized(group, sources);
  Parameter parameter;
  Destination& weight = parameter.weight;
  weight.spec = {
      .name = group.name, .shape = std::move(shape), .dtype = quantized ? DType::f8_e4m3 : first.spec.dtype};
  weight.matrices = matrices;
  weight.matrix_rows = rows;
  weight.matrix_bytes = matrices == 0 ? 0 : weight.spec.bytes() / matrices;
  weight.layer = first.layer;
  if (quantized) parameter.scale_layout = ScaleLayout::tiled_128x4;
  parameter.slots.resize(group.members.size());
  return parameter;
}

Parameter assemble_whole(const Group& group, const Sources& sources) {
  const Tensor& tensor = tensor_of(group.members.front(), sources);
  if (is_quantized(group, sources)) {
    if (tensor.kind == model::Kind::expert_gate_up_slab || tensor.kind == model::Kind::expert_down_slab) {
      fail_input(fmt::format(
          "{} cannot be quantized to MXFP8: this slab of all experts keeps K in the middle, not in its last "
          "dimension, so blocks of {} would run across rows; choose a recipe without routed experts.",
          describe(tensor.spec), quant::kBlock));
    }
    check_quantizable(tensor.spec, 2);
  }
  return make_parameter(group, sources, tensor.spec.shape, 1, tensor.spec.rows());
}

Parameter assemble_fused(const Group& group, const Sources& sources) {
  const TensorSpec& like = tensor_of(group.members.front(), sources).spec;
  std::vector<std::uint64_t> part_rows(group.parts);
  std::uint64_t rows = 0;
  for (const Group::Member& member : group.members) {
    const TensorSpec& spec = tensor_of(member, sources).spec;
    if (spec.shape.size() != like.shape.size() || spec.shape.empty() || spec.shape.size() > 2 ||
        spec.cols() != like.cols()) {
      fail_input(fmt::format("{} cannot be fused with {} {} into {}: rows of one matrix have one width.",
                             describe(spec), like.name, to_string(like.shape), group.name));
    }
    if (is_quantized(group, sources)) check_quantizable(spec, 2);
    part_rows[member.part] = spec.rows();
    rows += spec.rows();
  }
  Shape shape = like.shape.size() == 1 ? Shape{rows} : Shape{rows, like.cols()};
  Parameter parameter = make_parameter(group, sources, std::move(shape), 1, rows);
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    for (std::uint32_t part = 0; part < group.members[i].part; ++part) {
      parameter.slots[i].row_begin += part_rows[part];
    }
  }
  return parameter;
}

/// Scale layout and row order of stacked experts that are quantized.
void choose_expert_layout(Parameter& parameter, const TensorSpec& source, MoeLayout moe_layout) {
  if (parameter.scale_layout == ScaleLayout::none) return;
  if (moe_layout == MoeLayout::checkpoint) {
    parameter.scale_layout = ScaleLayout::row_major;
    return;
  }
  const std::uint64_t rows = parameter.weight.matrix_rows;
  if (rows % tile_rows != 0 || rows > std::numeric_limits<std::uint32_t>::max()) {
    fail_input(
        fmt::format("{} cannot be laid out as {}: {} has {} rows an expert, and the MoE layout {} needs a "
                    "multiple of {}; "
                    "the MoE layout {} takes any number of rows.",
                    describe(source), names::of(names::moe_layout, moe_layout), parameter.weight.spec.name,
                    rows, names::of(names::moe_layout, moe_layout), tile_rows,
                    names::of(names::moe_layout, MoeLayout::checkpoint)));
  }
  parameter.shuffled = true;
}

std::string_view part_name(const Group& group, std::uint32_t part) {
  if (group.parts == 1) return "down";
  return part == gate_part ? "gate" : "up";
}

/// Every expert from 0 to the last has each part once.
void check_all_experts(const Group& group, const Sources& sources, bool gated) {
  const std::size_t parts = gated ? 2 : 1;
  const std::uint32_t first_part = group.parts == 1 || gated ? 0 : up_part;
  const std::size_t experts = (group.members.size() + parts - 1) / parts;
  std::vector<std::uint32_t> present(experts * parts, kNone);
  for (const Group::Member& member : group.members) {
    const Tensor& tensor = tensor_of(member, sources);
    // More experts than tensors for them: one below is missing, and found so.
    if (tensor.expert >= static_cast<std::int64_t>(experts)) continue;
    if (tensor.expert < 0) {
      fail_input(
          fmt::format("{} is a part of {} but belongs to no expert.", describe(tensor.spec), group.name));
    }
    const std::size_t at = static_cast<std::size_t>(tensor.expert) * parts + (member.part - first_part);
    if (present[at] != kNone) {
      fail_input(fmt::format("{} and {} are both the {} projection of expert {} in {}.",
                             describe(tensor.spec), sources.tensors[present[at]].spec.name,
                             part_name(group, member.part), tensor.expert, group.name));
    }
    present[at] = member.source;
  }
  const auto missing = std::find(present.begin(), present.end(), kNone);
  if (missing == present.end()) return;
  const std::size_t at = static_cast<std::size_t>(missing - present.begin());
  fail_input(fmt::format("{} is incomplete: expert {} has no {} projection ({} tensors of {} were given).",
                         group.name, at / parts,
                         part_name(group, static_cast<std::uint32_t>(at % parts) + first_part),
                         group.members.size(), experts * parts));
}

Parameter assemble_experts(const Group& group, const Sources& sources) {
  const TensorSpec& like = tensor_of(group.members.front(), sources).spec;
  const bool gated =
      group.parts == 2 && std::any_of(group.members.begin(), group.members.end(),
                                      [](const Group::Member& member) { return member.part == gate_part; });
  check_all_experts(group, sources, gated);
  for (const Group::Member& member : group.members) {
    const TensorSpec& spec = tensor_of(member, sources).spec;
    if (spec.shape != like.shape || spec.shape.size() != 2) {
      fail_input(fmt::format("{} cannot be stacked with {} {} into {}: experts are matrices of one size.",
                             describe(spec), like.name, to_string(like.shape), group.name));
    }
    if (is_quantized(group, sources)) check_quantizable(spec, 2);
  }
  const std::uint64_t parts = gated ? 2 : 1;
  const std::uint64_t experts = group.members.size() / parts;
  const std::uint64_t rows = parts * like.rows();
  Parameter parameter = make_parameter(group, sources, {experts, rows, like.cols()}, experts, rows);
  parameter.weight.gated = gated;
  choose_expert_layout(parameter, like, sources.moe_layout);
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    const Group::Member& member = group.members[i];
    parameter.slots[i] = {.matrix = static_cast<std::uint64_t>(tensor_of(member, sources).expert),
                          .row_begin = gated ? member.part * like.rows() : 0};
  }
  return parameter;
}

Parameter assemble_slab(const Group& group, const Sources& sources) {
  const Tensor& slab = tensor_of(group.members.front(), sources);
  const Shape& shape = slab.spec.shape;
  const bool gated = slab.kind == model::Kind::expert_gate_up_slab;
  if (group.members.size() > 1) {
    fail_input(fmt::format("{} and {} would both be {}.", describe(slab.spec),
                           tensor_of(group.members[1], sources).spec.name, group.name));
  }
  if (shape.size() != 3 || (gated && shape[1] % 2 != 0)) {
    fail_input(fmt::format("{} is not a slab of experts [experts, {}, K].", describe(slab.spec),
                           gated ? "2 x width" : "rows"));
  }
  if (is_quantized(group, sources)) check_quantizable(slab.spec, 3);
  Parameter parameter = make_parameter(group, sources, shape, shape[0], shape[1]);
  parameter.weight.gated = gated;
  choose_expert_layout(parameter, slab.spec, sources.moe_layout);
  return parameter;
}

}  // namespace

std::vector<Group> group_sources(const model::Inventory& model) {
  const bool transposed_slabs = has_transposed_slabs(model);
  std::vector<Group> groups;
  std::unordered_map<std::string, std::size_t> shared;
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    Place place = place_of(model.tensors[i], transposed_slabs);
    const Group::Member member = {.source = static_cast<std::uint32_t>(i), .part = place.part};
    if (place.assembly != Assembly::whole) {
      const auto [found, is_new] = shared.emplace(place.name, groups.size());
      if (!is_new) {
        Group& group = groups[found->second];
        if (group.assembly != place.assembly) {
          fail_input(fmt::format("{} belongs to {}, which {} fills in another form.",
                                 describe(model.tensors[i].spec), group.name,
                                 model.tensors[group.members.front().source].spec.name));
        }
        group.members.push_back(member);
        continue;
      }
    }
    groups.push_back({.assembly = place.assembly,
                      .name = std::move(place.name),
                      .parts = place.parts,
                      .members = {member}});
  }

  std::vector<Group> result;
  result.reserve(groups.size());
  for (Group& group : groups) {
    if (group.assembly == Assembly::fused && !complete(group)) {
      append_apart(result, group, model.tensors);
    } else {
      result.push_back(std::move(group));
    }
  }
  return result;
}

Parameter assemble(const Group& group, const Sources& sources) {
  check_alike(group, sources);
  switch (group.assembly) {
    case Assembly::whole:
      return assemble_whole(group, sources);
    case Assembly::fused:
      return assemble_fused(group, sources);
    case Assembly::experts:
      return assemble_experts(group, sources);
    case Assembly::slab:
      return assemble_slab(group, sources);
  }
  fail_input(fmt::format("{} has no known form.", group.name));
}

}  // namespace refit::plan
