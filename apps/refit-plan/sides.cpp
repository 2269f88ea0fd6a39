// Both sides' parallelism: the command line's, else what the scenario says of it.
#include "sides.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "common/ranks_options.hpp"

namespace refit::apps {
namespace {

using reshard::Side;

constexpr std::uint32_t kUsualGpusPerNode = 8;

/// "tp=8,dp=8" of a scenario's published sizes; what it does not give is 1, and `notes` gets that.
std::string published(const scenario::Parallelism& sizes, std::string_view side,
                      std::vector<std::string>& notes) {
  std::vector<std::string> parts, assumed;
  const auto add = [&](std::string_view key, std::string_view name,
                       const std::optional<std::uint64_t>& size) {
    if (size) {
      parts.push_back(fmt::format("{}={}", key, *size));
    } else {
      assumed.emplace_back(name);
    }
  };
  add("tp", "tensor_parallel", sizes.tensor_parallel);
  add("pp", "pipeline_parallel", sizes.pipeline_parallel);
  add("ep", "expert_parallel", sizes.expert_parallel);
  const std::uint64_t ranks_of_a_replica = std::max<std::uint64_t>(1, sizes.tensor_parallel.value_or(1)) *
                                           std::max<std::uint64_t>(1, sizes.pipeline_parallel.value_or(1));
  if (sizes.gpus && *sizes.gpus % ranks_of_a_replica == 0) {
    add("dp", "", *sizes.gpus / ranks_of_a_replica);
  } else if (!sizes.gpus) {
    assumed.emplace_back("gpus");
  }
  if (!assumed.empty()) {
    notes.push_back(
        fmt::format("the scenario does not give the {}'s {}: 1 is assumed", side, fmt::join(assumed, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

/// The command line's, else what the scenario runs here, else what was published.
reshard::Parallelism parallelism_of(const char* option, const std::optional<std::string>& given,
                                    const std::optional<scenario::Ranks>& ranks,
                                    const scenario::Parallelism& sizes, Side side,
                                    std::vector<std::string>& notes) {
  if (given) return parallelism_option(option, *given, side);
  if (ranks) return side == Side::trainer ? ranks->trainer : ranks->generator;
  return reshard::parse_parallelism(published(sizes, side == Side::trainer ? "trainer" : "generator", notes),
                                    side);
}

/// Of the published run, where it has as many on every host.
std::optional<std::uint32_t> published_gpus_per_node(const scenario::Parallelism& sizes) {
  if (!sizes.gpus || !sizes.nodes || *sizes.nodes == 0 || *sizes.gpus % *sizes.nodes != 0)
    return std::nullopt;
  const std::uint64_t gpus = *sizes.gpus / *sizes.nodes;
  return gpus >= 1 && gpus <= 65536 ? std::optional(static_cast<std::uint32_t>(gpus)) : std::nullopt;
}

}  // namespace

Sides sides_of(const PlanOptions& options, const scenario::Scenario& scenario) {
  Sides sides;
  const std::optional<scenario::Ranks>& ranks = scenario.ranks ? scenario.ranks : scenario.cluster;
  if (!scenario.ranks && scenario.cluster && !(options.ranks.train && options.ranks.gen)) {
    sides.notes.push_back(scenario.cluster_assumption);
  }
  sides.trainer =
      parallelism_of("--train", options.ranks.train, ranks, scenario.trainer, Side::trainer, sides.notes);
  sides.generator =
      parallelism_of("--gen", options.ranks.gen, ranks, scenario.generator, Side::generator, sides.notes);
  sides.gpus_per_node =
      options.gpus_per_node.value_or(published_gpus_per_node(scenario.trainer).value_or(kUsualGpusPerNode));
  const bool as_the_scenario = ranks && !options.ranks.train && options.ranks.trainer_form.empty();
  sides.form = as_the_scenario ? ranks->form : trainer_form_of(options.ranks, sides.trainer);
  return sides;
}

}  // namespace refit::apps
