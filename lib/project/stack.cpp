// Strict reading of a stack.
#include "refit/project/stack.hpp"

#include <fmt/format.h>

#include "project/files.hpp"
#include "refit/base/printable.hpp"
#include "refit/scenario/scenario.hpp"

namespace refit::project {
namespace {

constexpr std::array<std::string_view, kCosts> kNames{"gather",         "pack",
                                                      "quantize",       "receiver_quantize",
                                                      "load_lookup",    "load_cached",
                                                      "shuffle_expert", "shuffle_layer",
                                                      "call",           "bucket",
                                                      "allocate",       "handle",
                                                      "offset_map_key", "handle_function",
                                                      "exchange",       "refit",
                                                      "prepare"};

Fitted read_share(const JsonNode& node) {
  const Fitted fitted = read_fitted(node, false);
  if (fitted.figure.value > 1) node.at("value").fail("is a share and at most 1");
  return fitted;
}

}  // namespace

std::string_view name_of(Cost cost) noexcept {
  return kNames[static_cast<std::size_t>(cost)];
}

Stack load_stack(const std::filesystem::path& file) {
  const Json root = read_json_file(file.string());
  const JsonNode node(root, file.string());
  node.require_known({"schema", "name", "title", "costs_s", "exports_whole_model", "loads_quantized_keys",
                      "packs_batches", "message_share", "offload_share", "pageable_share",
                      "leave_out_log_error"});
  const Head head = read_head(node, kStackSchema, file);
  Stack stack;
  stack.name = head.name;
  stack.title = head.title;
  const JsonNode costs = node.at("costs_s");
  costs.require_known({kNames.begin(), kNames.end()});
  for (std::size_t cost = 0; cost < kCosts; ++cost)
    stack.costs[cost] = read_fitted(costs.at(kNames[cost]), true);
  stack.exports_whole_model = node.at("exports_whole_model").flag();
  stack.loads_quantized_keys = node.at("loads_quantized_keys").flag();
  stack.packs_batches = node.at("packs_batches").flag();
  stack.message_share = read_share(node.at("message_share"));
  stack.offload_share = read_share(node.at("offload_share"));
  stack.pageable_share = read_share(node.at("pageable_share"));
  if (const auto errors = node.find("leave_out_log_error")) {
    const auto& keys = scenario::phase_keys();
    errors->require_known({keys.begin(), keys.end()});
    for (const auto& [phase, error] : errors->members()) stack.leave_out.emplace(phase, error.number());
  }
  return stack;
}

Stack find_stack(const std::string& name_or_file) {
  return load_stack(find_file(name_or_file, "stacks", "stack"));
}

std::vector<std::string> stack_names() {
  return names_in("stacks");
}

}  // namespace refit::project
