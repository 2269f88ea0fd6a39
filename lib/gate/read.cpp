// Which format a file has, and which of its samples count.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gate/readers.hpp"
#include "refit/base/error.hpp"
#include "refit/gate/measurement.hpp"
#include "refit/time/statistics.hpp"

namespace refit::gate {
namespace {

constexpr std::size_t kMostSamples = 100'000;
/// 30 years, and less than a clock sees: far from where sums and quotients of seconds overflow.
constexpr double kMostSeconds = 1e9, kLeastSeconds = 1e-18;
/// Each is compared and drawn thousands of times.
constexpr std::size_t kMostPhases = 10'000;

struct Format {
  Source source;
  std::string_view name;
  bool (*matches)(const JsonNode&);
  void (*read)(const JsonNode&, const Selection&, Run&);
};
constexpr std::array kFormats = {
    Format{Source::refit_bench, "refit-bench", is_refit_bench, read_refit_bench},
    Format{Source::google_benchmark, "Google Benchmark", is_google_benchmark, read_google_benchmark},
    Format{Source::nccl_tests, "nccl-tests", is_nccl_tests, read_nccl_tests},
    Format{Source::nemo_rl, "NeMo-RL", is_nemo_rl, read_nemo_rl},
};

/// How many samples at the beginning are still warming up.
std::size_t warming_up(const std::vector<double>& seconds) {
  const std::size_t half = seconds.size() / 2;
  std::vector<double> later(seconds.begin() + static_cast<std::ptrdiff_t>(half), seconds.end());
  std::sort(later.begin(), later.end());
  const double q1 = quantile(later, 0.25), q3 = quantile(later, 0.75);
  const double fence = q3 + 1.5 * (q3 - q1);
  std::size_t first = 0;
  while (first < half && seconds[first] > fence) ++first;
  return first;
}

}  // namespace

std::string_view name_of(Source source) noexcept {
  for (const Format& format : kFormats) {
    if (format.source == source) return format.name;
  }
  return "";
}

double usual_min_effect(Source source) noexcept {
  return source == Source::refit_bench || source == Source::nemo_rl ? 1e-4 : 0;
}

std::vector<double> selected(const JsonNode& node, std::vector<double> seconds, const Selection& selection,
                             const std::vector<std::uint64_t>& numbers) {
  if (seconds.empty()) node.fail("has no samples");
  if (seconds.size() > kMostSamples) {
    node.fail(fmt::format("has {} samples; at most {} are read", seconds.size(), kMostSamples));
  }
  const double longest = *std::max_element(seconds.begin(), seconds.end());
  if (longest > kMostSeconds) node.fail(fmt::format("has a sample of {} s", longest));
  for (const double sample : seconds) {
    if (sample > 0 && sample < kLeastSeconds) node.fail(fmt::format("has a sample of {} s", sample));
  }
  const std::size_t all = seconds.size();
  std::vector<double> kept;
  for (std::size_t i = 0; i < all; ++i) {
    const std::uint64_t number = numbers.empty() ? i + 1 : numbers[i];
    if (number >= selection.first.value_or(1) && (!selection.last || number <= *selection.last)) {
      kept.push_back(seconds[i]);
    }
  }
  if (kept.empty()) node.fail(fmt::format("has {} samples, and none among those that were asked for", all));
  if (selection.by_rule)
    kept.erase(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(warming_up(kept)));
  return kept;
}

Run read_run(const std::string& file, const Selection& selection) {
  const Json json = read_json_file(file);
  const JsonNode root(json, file);
  Run run{.file = file};
  for (const Format& format : kFormats) {
    if (!format.matches(root)) continue;
    run.source = format.source;
    format.read(root, selection, run);
    if (run.phases.empty() && run.faults.empty()) root.fail("holds nothing that was timed");
    if (run.phases.size() > kMostPhases) {
      root.fail(fmt::format("holds {} phases; at most {} are read", run.phases.size(), kMostPhases));
    }
    return run;
  }
  const auto schema = root.find("schema");
  root.fail(
      schema
          ? fmt::format("is of schema {}; refit-gate reads refit-bench/1, Google Benchmark, nccl-tests and "
                        "NeMo-RL metrics",
                        json_shown(schema->json()))
          : "is no result that refit-gate reads: of refit-bench, Google Benchmark (context, benchmarks), "
            "nccl-tests (nccl_version, results) or NeMo-RL (timing/... by step)");
}

}  // namespace refit::gate
