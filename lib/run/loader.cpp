// Checkpoint names to engine parameters, by substring as vLLM does it.
#include "run/loader.hpp"

#include <fmt/format.h>

#include <utility>

#include "refit/base/error.hpp"

namespace refit::run {
namespace {

/// Length of what two names have in common at their beginning, cut back to the last '.'.
std::size_t common_prefix(std::string_view a, std::string_view b) {
  std::size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return a.rfind('.', n == 0 ? 0 : n - 1);
}

/// ".experts.7.up_proj." of "model.layers.0.mlp.experts.7.up_proj.weight": everything from the common prefix
/// to the parameter's own name.
struct Rewrite {
  std::string source, target, shard;
};

Rewrite rewrite_of(const std::string& wire_name, const std::string& parameter) {
  const std::size_t begin = common_prefix(wire_name, parameter);
  const std::size_t source_end = wire_name.rfind('.');
  // "qkv_proj.weight" ends in a module of its own, "w13_weight" carries the parameter's name behind an
  // underscore.
  const std::string leaf = wire_name.substr(source_end + 1);
  Rewrite rewrite;
  rewrite.source = wire_name.substr(begin, source_end + 1 - begin);
  rewrite.target = parameter.substr(begin, parameter.size() - leaf.size() - begin);
  const std::size_t module = wire_name.rfind('.', source_end - 1);
  rewrite.shard = wire_name.substr(module + 1, source_end - module - 1);
  return rewrite;
}

}  // namespace

LoaderRoutes::LoaderRoutes(const plan::Plan& plan, const plan::Wire& wire, plan::Loader loader)
    : plan_(plan), wire_(wire), loader_(loader), shard_rows_(plan.destinations.size()) {
  for (std::uint32_t d = 0; d < plan.destinations.size(); ++d)
    parameters_.emplace(plan.destinations[d].spec.name, d);
  for (const plan::Segment& segment : plan.segments) add_mapping(segment);
  if (loader == plan::Loader::cached) cache_.resize(wire.entries.size());
}

void LoaderRoutes::add_mapping(const plan::Segment& segment) {
  if (segment.op == plan::Op::zero) return;
  const std::string& parameter = plan_.destinations[segment.destination].spec.name;
  if (parameter == segment.wire_name) return;
  Rewrite rewrite = rewrite_of(segment.wire_name, parameter);
  shard_rows_[segment.destination].emplace(rewrite.shard, segment.row_begin);
  if (known_.insert(rewrite.source).second) {
    mappings_.push_back(
        {std::move(rewrite.source), std::move(rewrite.target), segment.matrix, rewrite.shard});
  }
}

Route LoaderRoutes::resolve(const std::string& name) const {
  for (const Mapping& mapping : mappings_) {
    const std::size_t at = name.find(mapping.source);
    if (at == std::string::npos) continue;
    std::string parameter = name;
    parameter.replace(at, mapping.source.size(), mapping.target);
    const auto found = parameters_.find(parameter);
    if (found == parameters_.end()) continue;
    const auto rows = shard_rows_[found->second].find(mapping.shard);
    if (rows == shard_rows_[found->second].end()) continue;
    return {found->second, mapping.matrix, rows->second};
  }
  const auto found = parameters_.find(name);
  if (found == parameters_.end())
    fail_input(fmt::format("key '{}' leads to no parameter of the engine", name));
  return {found->second, 0, 0};
}

Route LoaderRoutes::find(std::uint32_t entry) {
  const std::string& name = plan_.segments[wire_.entries[entry].segment].wire_name;
  if (loader_ == plan::Loader::lookup) return resolve(name);
  Route& route = cache_[entry];
  if (route.destination == plan::kNone) route = resolve(name);
  return route;
}

}  // namespace refit::run
