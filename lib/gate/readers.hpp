// One reader a format. Each looks at nothing but what it needs, so that a file may say more.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/json_node.hpp"
#include "refit/gate/measurement.hpp"

namespace refit::gate {

/// Leaves the samples out that do not count; Error(input) at `node` when none is left or there are too many.
/// `numbers` are the steps' where they have some.
[[nodiscard]] std::vector<double> selected(const JsonNode& node, std::vector<double> seconds,
                                           const Selection& selection,
                                           const std::vector<std::uint64_t>& numbers = {});

[[nodiscard]] bool is_refit_bench(const JsonNode& root);
[[nodiscard]] bool is_google_benchmark(const JsonNode& root);
[[nodiscard]] bool is_nccl_tests(const JsonNode& root);
[[nodiscard]] bool is_nemo_rl(const JsonNode& root);

void read_refit_bench(const JsonNode& root, const Selection& selection, Run& run);
void read_google_benchmark(const JsonNode& root, const Selection& selection, Run& run);
void read_nccl_tests(const JsonNode& root, const Selection& selection, Run& run);
void read_nemo_rl(const JsonNode& root, const Selection& selection, Run& run);

}  // namespace refit::gate
