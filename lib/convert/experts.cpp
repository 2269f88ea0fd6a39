// Gathering experts to stacks; an incomplete stack is refused by name.
#include "convert/experts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "refit/base/error.hpp"

namespace refit::convert {
namespace {

struct ProjectionName {
  std::string_view name;
  Projection projection;
};
constexpr std::array kProjections = {
    ProjectionName{"gate_proj", Projection::gate}, ProjectionName{"up_proj", Projection::up},
    ProjectionName{"down_proj", Projection::down}, ProjectionName{"w1", Projection::gate},
    ProjectionName{"w3", Projection::up},          ProjectionName{"w2", Projection::down}};
constexpr std::array<std::string_view, 3> kWords = {"gate", "up", "down"};
/// More experts than any model has; a name with a larger number is no expert's.
constexpr std::uint64_t kMostExperts = 1u << 16;

bool in_stack(Op op) {
  return op == Op::quantize || op == Op::carry;
}

void add(const Source& source, Stack& stack, const ExpertName& name, std::uint32_t tensor, Op op) {
  if (stack.op != op) {
    fail_input(
        fmt::format("{} cannot be stacked with {}: one is or becomes MXFP8 in another way; the experts of a "
                    "layer have to be "
                    "treated alike",
                    source.place(source.tensors[tensor]), source.tensors[stack.first].spec->name));
  }
  auto& members = stack.members[static_cast<std::size_t>(name.projection)];
  if (members.size() <= name.expert) members.resize(name.expert + 1, kNone);
  if (members[name.expert] != kNone) {
    fail_input(fmt::format("{} and {} are the same projection of the same expert",
                           source.place(source.tensors[tensor]),
                           source.tensors[members[name.expert]].spec->name));
  }
  members[name.expert] = tensor;
}

void check(const Source& source, Stack& stack) {
  std::size_t experts = 0;
  for (const auto& members : stack.members) experts = std::max(experts, members.size());
  for (std::size_t p = 0; p < stack.members.size(); ++p) {
    auto& members = stack.members[p];
    if (p == 0 && members.empty()) continue;
    members.resize(experts, kNone);
    const auto missing = std::find(members.begin(), members.end(), kNone);
    if (missing != members.end()) {
      fail_input(fmt::format("{}: {} is incomplete: expert {} of {} has no {} projection",
                             source.checkpoint->path(), stack.name, missing - members.begin(), experts,
                             kWords[p]));
    }
    const bool w13 = p < 2;
    const SourceTensor& like =
        source.tensors[w13 && stack.gated() ? stack.members[0].front() : members.front()];
    for (const std::uint32_t member : members) {
      const TensorSpec& spec = *source.tensors[member].spec;
      if (spec.shape.size() == 2 && spec.shape == like.spec->shape) continue;
      fail_input(fmt::format("{} {} cannot be stacked with {} {}: experts are matrices of one size",
                             source.place(source.tensors[member]), to_string(spec.shape), like.spec->name,
                             to_string(like.spec->shape)));
    }
  }
}

}  // namespace

std::optional<ExpertName> parse_expert(std::string_view name) {
  constexpr std::string_view mark = ".experts.", suffix = ".weight";
  const std::size_t at = name.rfind(mark);
  if (at == std::string_view::npos || !name.ends_with(suffix)) return std::nullopt;
  const std::string_view rest = name.substr(at + mark.size(), name.size() - suffix.size() - at - mark.size());
  ExpertName result;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), result.expert);
  if (error != std::errc{} || end == rest.data() + rest.size() || *end != '.') return std::nullopt;
  if (result.expert >= kMostExperts) return std::nullopt;
  const std::string_view projection = rest.substr(static_cast<std::size_t>(end + 1 - rest.data()));
  for (const ProjectionName& known : kProjections) {
    if (known.name != projection) continue;
    result.stack = name.substr(0, at + mark.size() - 1);
    result.projection = known.projection;
    return result;
  }
  return std::nullopt;
}

std::vector<Stack> expert_stacks(const Source& source, const Selection& selection) {
  std::vector<Stack> stacks;
  std::unordered_map<std::string_view, std::size_t> by_name;
  for (std::uint32_t i = 0; i < source.tensors.size(); ++i) {
    const auto name = parse_expert(source.tensors[i].spec->name);
    if (!name) continue;
    const auto [found, is_new] = by_name.emplace(name->stack, stacks.size());
    if (is_new) {
      stacks.push_back({.name = std::string(name->stack), .op = selection.ops[i], .first = i, .members = {}});
    }
    add(source, stacks[found->second], *name, i, selection.ops[i]);
  }
  std::erase_if(stacks, [](const Stack& stack) { return !in_stack(stack.op); });
  for (Stack& stack : stacks) check(source, stack);
  return stacks;
}

}  // namespace refit::convert
