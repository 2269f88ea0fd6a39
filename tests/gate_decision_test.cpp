// How often the gate is wrong, and how often it is right: by simulation, with the rates printed.
#include "refit/gate/decision.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/noise.hpp"

namespace {

using namespace refit;
using gate::Decision;
using gate::Starts;
using gate::Verdict;
using test::Noise;

constexpr std::uint64_t kSeed = 20261201;
constexpr std::size_t kSamples = 18;

struct Kind {
  std::string name;
  std::size_t starts;
  std::function<std::vector<double>(Noise&)> start;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> list = {
      {"3 % noise", 1, [](Noise& n) { return n.plain(kSamples, 0.03); }},
      {"10 % noise", 1, [](Noise& n) { return n.plain(kSamples, 0.10); }},
      {"heavy tails", 1, [](Noise& n) { return n.heavy_tailed(kSamples); }},
      {"drift of 8 %", 1, [](Noise& n) { return n.drifting(kSamples, 0.08); }},
      {"warming up by 25 %", 1, [](Noise& n) { return n.warming_up(kSamples); }},
      {"two clocks 8 % apart", 1, [](Noise& n) { return n.two_clocks(kSamples, 0.08, 4); }},
      {"two clocks 12 % apart", 1, [](Noise& n) { return n.two_clocks(kSamples, 0.12, 3); }},
      {"all of these", 1, [](Noise& n) { return n.everything(kSamples); }},
      {"3 starts, levels 1 % apart", 3, [](Noise& n) { return n.shifted(n.plain(kSamples, 0.03), 0.01); }},
      {"2 starts, levels 3 % apart", 2, [](Noise& n) { return n.shifted(n.plain(kSamples, 0.03), 0.03); }},
      {"5 starts, levels 3 % apart", 5, [](Noise& n) { return n.shifted(n.everything(kSamples), 0.03); }},
      {"5 starts, a clock each", 5, [](Noise& n) { return n.two_clocks(kSamples, 0.12, 200); }},
  };
  return list;
}

Starts draw(const Kind& kind, Noise& noise, double slowdown) {
  Starts starts;
  for (std::size_t i = 0; i < kind.starts; ++i) {
    starts.push_back(kind.start(noise));
    for (double& sample : starts.back()) sample *= 1 + slowdown;
  }
  return starts;
}

using Rates = std::array<double, 4>;  // of pass, improved, regression, ambiguous

Rates rates(const Kind& kind, double slowdown, std::size_t comparisons) {
  Rates rates{};
  for (std::size_t i = 0; i < comparisons; ++i) {
    Noise noise(kSeed + i);
    const Starts baseline = draw(kind, noise, 0), candidate = draw(kind, noise, slowdown);
    const Decision decision = gate::decide(baseline, candidate, {}, i);
    rates[static_cast<std::size_t>(decision.verdict)] += 1.0 / static_cast<double>(comparisons);
  }
  std::printf("%s\n",
              fmt::format("{:>5} comparisons, {:<28} {:>4.0f} % slower: {:5.1f} % pass, {:5.1f} % improved, "
                          "{:5.1f} % regression, {:5.1f} % ambiguous",
                          comparisons, kind.name, 100 * slowdown, 100 * rates[0], 100 * rates[1],
                          100 * rates[2], 100 * rates[3])
                  .c_str());
  return rates;
}

}  // namespace

TEST_CASE("of 1000 comparisons of a thing with itself at most 1 % are called regressions") {
  for (const Kind& kind : kinds()) {
    INFO(kind.name);
    const Rates found = rates(kind, 0, 1000);
    CHECK(found[2] <= 0.01);
    CHECK(found[1] <= 0.01);
  }
}

TEST_CASE("a slowdown of 10 % is found by 18 samples at 3 % noise, and never passes") {
  const Rates found = rates(kinds()[0], 0.10, 1000);
  CHECK(found[2] >= 0.95);
  CHECK(found[0] == 0);
}

TEST_CASE("one start a side cannot see that starts differ, and five can") {
  const Kind one{"1 start, a clock each", 1, [](Noise& n) { return n.two_clocks(kSamples, 0.12, 200); }};
  CHECK(rates(one, 0, 300)[2] > 0.1);
}

TEST_CASE(
    "a slowdown of 20 % is found under nearly every kind of noise more often than not, and hardly ever "
    "passes") {
  for (const Kind& kind : kinds()) {
    INFO(kind.name);
    const Rates found = rates(kind, 0.20, 300);
    CHECK(found[2] >= (kind.name == "5 starts, a clock each" ? 0.3 : 0.6));
    CHECK(found[0] + found[1] <= 0.01);
  }
}

TEST_CASE("a single outlier decides nothing, wherever it is") {
  Noise noise(kSeed);
  const std::vector<double> quiet = noise.plain(kSamples, 0.01);
  std::vector<double> slower = noise.plain(kSamples, 0.01);
  for (double& sample : slower) sample *= 1.1;
  for (std::size_t at = 0; at < kSamples; ++at) {
    for (const double outlier : {0.001, 100.0}) {
      INFO(at << " times " << outlier);
      std::vector<double> odd = quiet, odd_slower = slower;
      odd[at] *= outlier;
      odd_slower[at] *= outlier;
      CHECK(gate::decide({quiet}, {odd}, {}, 1).verdict == Verdict::pass);
      CHECK(gate::decide({odd}, {quiet}, {}, 1).verdict == Verdict::pass);
      CHECK(gate::decide({quiet}, {odd_slower}, {}, 1).verdict == Verdict::regression);
      CHECK(gate::decide({odd_slower}, {quiet}, {}, 1).verdict == Verdict::improved);
    }
  }
}

TEST_CASE("one bad start of five decides nothing") {
  Noise noise(kSeed);
  Starts baseline, candidate;
  for (int i = 0; i < 5; ++i) {
    baseline.push_back(noise.plain(kSamples, 0.01));
    candidate.push_back(noise.plain(kSamples, 0.01));
  }
  CHECK(gate::decide(baseline, candidate, {}, 1).verdict == Verdict::pass);
  for (double& sample : candidate[2]) sample *= 3;
  CHECK(gate::decide(baseline, candidate, {}, 1).verdict != Verdict::regression);
}

TEST_CASE("starts are not pooled: what differs between them is no certainty about the candidate") {
  Noise noise(kSeed);
  Starts baseline, candidate;
  for (const double level : {1.0, 1.1, 0.9}) {
    baseline.push_back(noise.plain(60, 0.01));
    for (double& sample : baseline.back()) sample *= level;
    candidate.push_back(noise.plain(60, 0.01));
    for (double& sample : candidate.back()) sample *= level * 1.1;
  }
  const Decision several = gate::decide(baseline, candidate, {}, 1);
  CHECK(several.verdict == Verdict::ambiguous);
  REQUIRE(several.needed);
  CHECK(several.needed->starts > 0);
  CHECK(several.baseline.starts == 3);
  CHECK(several.baseline.samples == 180);
  // The middle starts alone leave no doubt.
  CHECK(gate::decide({baseline[0]}, {candidate[0]}, {}, 1).verdict == Verdict::regression);
}

TEST_CASE("many starts of the baseline tell how starts differ to a candidate that has one") {
  Noise noise(kSeed);
  Starts baseline;
  for (int i = 0; i < 5; ++i) baseline.push_back(noise.shifted(noise.plain(kSamples, 0.01), 0.06));
  std::vector<double> candidate = noise.plain(kSamples, 0.01);
  for (double& sample : candidate) sample *= 1.1;
  CHECK(gate::decide({baseline[0]}, {candidate}, {}, 1).ci95->high <
        gate::decide(baseline, {candidate}, {}, 1).ci95->high);
  CHECK(gate::decide(baseline, {candidate}, {}, 1).verdict == Verdict::ambiguous);
}

TEST_CASE("few samples condemn nobody, and fewer let nobody pass") {
  const std::vector<double> one(1, 1.0), four(4, 1.0), five(5, 1.0), seven(7, 2.0), eight(8, 2.0);
  CHECK(gate::decide({one}, {one}, {}, 1).needed->samples == 4);
  CHECK(gate::decide({four}, {four}, {}, 1).needed->samples == 1);
  CHECK(gate::decide({five}, {five}, {}, 1).verdict == Verdict::pass);
  const Decision few = gate::decide({eight}, {std::vector<double>(7, 3.0)}, {}, 1);
  CHECK(few.verdict == Verdict::ambiguous);
  CHECK(few.needed->samples == 1);
  CHECK(gate::decide({eight}, {std::vector<double>(8, 3.0)}, {}, 1).verdict == Verdict::regression);
  CHECK(gate::decide({seven}, {std::vector<double>(7, 1.0)}, {}, 1).verdict == Verdict::pass);
  CHECK(gate::decide({eight}, {std::vector<double>(8, 1.0)}, {}, 1).verdict == Verdict::improved);
}

TEST_CASE("what takes no time is no ratio and no regression") {
  const std::vector<double> nothing(10, 0.0), timer(10, 4e-8), real(10, 0.5);
  const Decision same = gate::decide({nothing}, {nothing}, {}, 1);
  CHECK(same.verdict == Verdict::pass);
  CHECK_FALSE(same.value);
  CHECK(gate::decide({nothing}, {timer}, {.share = 0.05, .seconds = 1e-4}, 1).verdict == Verdict::pass);
  CHECK(gate::decide({nothing}, {real}, {.share = 0.05, .seconds = 1e-4}, 1).verdict == Verdict::regression);
}

TEST_CASE("an effect below the absolute threshold is none, however large its share") {
  Noise noise(kSeed);
  std::vector<double> a = noise.plain(20, 0.01), b = noise.plain(20, 0.01);
  for (double& sample : a) sample *= 1e-4;
  for (double& sample : b) sample *= 1.4e-4;
  CHECK(gate::decide({a}, {b}, {}, 1).verdict == Verdict::regression);
  CHECK(gate::decide({a}, {b}, {.share = 0.05, .seconds = 1e-4}, 1).verdict == Verdict::pass);
  CHECK(gate::decide({b}, {a}, {.share = 0.05, .seconds = 1e-4}, 1).verdict == Verdict::pass);
}

TEST_CASE("the same samples and seed give the same decision, bit by bit") {
  Noise noise(kSeed);
  const Starts a = {noise.everything(30)}, b = {noise.everything(25)};
  const Decision first = gate::decide(a, b, {}, 7), again = gate::decide(a, b, {}, 7);
  CHECK(first.ci95->low == again.ci95->low);
  CHECK(first.ci95->high == again.ci95->high);
  CHECK(first.ci95->low != gate::decide(a, b, {}, 8).ci95->low);
}

TEST_CASE("as many more samples as an ambiguous case asks for mostly settle it") {
  std::size_t asked = 0, settled = 0;
  for (std::uint64_t i = 0; i < 60; ++i) {
    Noise noise(kSeed + i);
    const Decision before = gate::decide({noise.plain(18, 0.08)}, {noise.plain(18, 0.08)}, {}, i);
    if (before.verdict != Verdict::ambiguous || before.needed->hopeless) continue;
    // More of the same: their centres are those that were measured, so that half as many again is safe.
    const std::size_t more = 18 + before.needed->samples;
    ++asked;
    const Decision after = gate::decide({noise.plain(2 * more, 0.08)}, {noise.plain(2 * more, 0.08)}, {}, i);
    settled += after.verdict == Verdict::ambiguous ? 0 : 1;
  }
  CAPTURE(asked, settled);
  CHECK(asked > 20);
  CHECK(2 * settled > asked);
}

TEST_CASE("what lies on the threshold is said to be hopeless, not to need a million samples") {
  Noise noise(kSeed);
  const std::vector<double> a = noise.plain(18, 0.03);
  std::vector<double> b = a;
  for (double& sample : b) sample *= 1.0501;
  const Decision decision = gate::decide({a}, {b}, {}, 1);
  REQUIRE(decision.verdict == Verdict::ambiguous);
  CHECK(decision.needed->hopeless);
}

TEST_CASE("a limit is kept, broken, or too close to say") {
  Noise noise(kSeed);
  const std::vector<double> samples = noise.plain(20, 0.03);
  CHECK(gate::decide_limit({samples}, 1.1, 1).verdict == Verdict::pass);
  CHECK(gate::decide_limit({samples}, 0.9, 1).verdict == Verdict::regression);
  CHECK(gate::decide_limit({samples}, 1.001, 1).verdict == Verdict::ambiguous);
  CHECK(gate::decide_limit({std::vector<double>(1, 1.0)}, 2, 1).verdict == Verdict::ambiguous);
}

TEST_CASE("a ratio of arms sees through what slows both down at once") {
  Noise noise(kSeed);
  std::vector<double> control, treatment;
  for (std::size_t i = 0; i < 100; ++i) {
    const double load = 1 + 3 * noise.uniform();
    control.push_back(load * (1 + 0.02 * noise.normal()));
    treatment.push_back(load * 1.1 * (1 + 0.02 * noise.normal()));
  }
  CHECK(gate::decide_ratio({control}, {treatment}, 1.05, 1).verdict != Verdict::pass);
  CHECK(gate::decide_ratio({control}, {control}, 1.05, 1).verdict == Verdict::pass);
  const Decision limited = gate::decide_ratio({control}, {treatment}, 0.9, 1);
  CHECK(limited.verdict == Verdict::regression);
  CHECK(*limited.value == Approx(1.1).margin(0.1));
}

TEST_CASE("a slowdown of less than the threshold is none") {
  const Rates found = rates(kinds()[0], 0.02, 300);
  CHECK(found[2] == 0);
  CHECK(found[0] >= 0.5);
}
