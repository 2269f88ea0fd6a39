// Deadlines, closed accounting and the statistics of samples.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "refit/time/deadline.hpp"
#include "refit/time/statistics.hpp"
#include "refit/time/timeline.hpp"
#include "support/catch.hpp"

using namespace refit;
using std::chrono::duration;
using std::chrono::hours;
using std::chrono::milliseconds;

namespace {

double sum_of_stages(const Timeline& timeline) {
  double sum = 0;
  for (const StageTotal& stage : timeline.stages()) sum += stage.seconds;
  return sum;
}

/// A uniform value in [0, 1) that depends on its arguments alone.
double uniform(std::uint64_t seed, std::uint64_t index) {
  return std::ldexp(static_cast<double>(mix64(mix64(seed + 1) + index * 0x9E3779B97F4A7C15ull) >> 11), -53);
}

}  // namespace

TEST_CASE("a deadline that has passed polls for 0 milliseconds and never for ever") {
  CHECK(Deadline(Clock::now() - hours(1)).poll_milliseconds() == 0);
  CHECK(Deadline(Clock::now() - hours(1)).passed());
  CHECK(Deadline::after(duration<double>(0)).passed());
  CHECK(Deadline::after(duration<double>(-1e300)).passed());
  CHECK(Deadline::after(duration<double>(std::nan(""))).passed());
}

TEST_CASE("a deadline rounds the milliseconds left up, so that a poll does not return before it") {
  const Deadline soon(Clock::now() + std::chrono::microseconds(900));
  CHECK((soon.poll_milliseconds() == 1 || soon.passed()));
  const int left = Deadline::after(duration<double>(10.0)).poll_milliseconds();
  CHECK(left > 9000);
  CHECK(left <= 10000);
}

TEST_CASE("a deadline far away is clamped to what poll can take") {
  CHECK(Deadline::after(duration<double>(1e300)).poll_milliseconds() == std::numeric_limits<int>::max());
  CHECK_FALSE(Deadline::after(duration<double>(std::numeric_limits<double>::infinity())).passed());
}

TEST_CASE("stages and the unattributed rest close to the wall exactly") {
  Timeline timeline;
  timeline.start();
  timeline.enter("gather");
  std::this_thread::sleep_for(milliseconds(3));
  timeline.enter("pack");
  std::this_thread::sleep_for(milliseconds(2));
  timeline.leave();
  std::this_thread::sleep_for(milliseconds(4));
  timeline.enter("gather");
  std::this_thread::sleep_for(milliseconds(3));
  timeline.stop();

  REQUIRE(timeline.stages().size() == 2);
  CHECK(timeline.stages()[0].name == "gather");
  CHECK(timeline.stages()[0].seconds >= 0.006);
  CHECK(timeline.stages()[1].name == "pack");
  CHECK(timeline.stages()[1].seconds >= 0.002);
  CHECK(timeline.unattributed() >= 0.004);
  CHECK(std::abs(sum_of_stages(timeline) + timeline.unattributed() - timeline.wall()) <= 1e-12);
}

TEST_CASE("ten thousand switches lose no time between stages") {
  const std::array<std::string_view, 3> names = {"gather", "quantize", "publish"};
  Timeline timeline;
  timeline.start();
  timeline.enter(names[0]);
  for (std::size_t i = 0; i < 10000; ++i) timeline.enter(names[i % names.size()]);
  timeline.stop();
  REQUIRE(timeline.stages().size() == names.size());
  CHECK(std::abs(sum_of_stages(timeline) + timeline.unattributed() - timeline.wall()) <= 1e-12);
  // Only the instants before the first and after the last stage belong to none.
  CHECK(timeline.unattributed() < 0.5 * timeline.wall());
}

TEST_CASE("a stage entered again adds seconds, bytes and launches, also under an equal name elsewhere") {
  const std::string same_text = "pack";
  Timeline timeline;
  timeline.start();
  timeline.enter("pack");
  timeline.add(100, 1);
  timeline.enter("wait");
  timeline.add(1, 0);
  timeline.enter(same_text);
  timeline.add(23, 2);
  timeline.add(0, 1);
  timeline.stop();
  REQUIRE(timeline.stages().size() == 2);
  CHECK(timeline.stages()[0].bytes == 123);
  CHECK(timeline.stages()[0].launches == 4);
  CHECK(timeline.stages()[1].bytes == 1);
  CHECK(timeline.stages()[1].launches == 0);
}

TEST_CASE("a timeline started again forgets what it recorded") {
  Timeline timeline;
  timeline.start();
  timeline.enter("pack");
  timeline.add(7, 7);
  timeline.stop();
  timeline.start();
  CHECK(timeline.wall() == 0);
  timeline.enter("load");
  timeline.stop();
  REQUIRE(timeline.stages().size() == 1);
  CHECK(timeline.stages()[0].name == "load");
  CHECK(timeline.stages()[0].bytes == 0);
}

TEST_CASE("a timeline that keeps spans has each stay with its own bytes, and they add up to the stages") {
  Timeline timeline;
  timeline.keep_spans(10);
  timeline.start();
  timeline.enter("pack");
  timeline.add(100, 1);
  timeline.enter("wait");
  timeline.leave();
  timeline.enter("pack");
  timeline.add(20, 2);
  timeline.stop();
  const Recording kept = timeline.recording();
  CHECK(kept.stages == std::vector<std::string>{"pack", "wait"});
  CHECK(kept.wall == timeline.wall());
  CHECK(kept.left_out == 0);
  REQUIRE(kept.spans.size() == 3);
  CHECK(kept.spans[0].stage == 0);
  CHECK(kept.spans[1].stage == 1);
  CHECK(kept.spans[2].stage == 0);
  CHECK(kept.spans[0].bytes == 100);
  CHECK(kept.spans[1].bytes == 0);
  CHECK(kept.spans[2].bytes == 20);
  CHECK(kept.spans[2].launches == 2);
  CHECK(kept.spans[0].begin >= 0);
  CHECK(kept.spans[0].end == kept.spans[1].begin);
  CHECK(kept.spans[1].end <= kept.spans[2].begin);
  CHECK(kept.spans[2].end == kept.wall);
  double pack = 0;
  for (const std::size_t i : {0, 2}) pack += kept.spans[i].end - kept.spans[i].begin;
  CHECK(std::abs(pack - timeline.stages()[0].seconds) <= 1e-9);
}

TEST_CASE("a timeline keeps the first spans, counts the rest and takes no memory after the first run") {
  Timeline timeline;
  timeline.keep_spans(5);
  for (int run = 0; run < 2; ++run) {
    timeline.start();
    for (int i = 0; i < 12; ++i) timeline.enter(i % 2 == 0 ? "pack" : "wait");
    timeline.stop();
    const Recording kept = timeline.recording();
    CHECK(kept.spans.size() == 5);
    CHECK(kept.left_out == 7);
  }
  Timeline forgetful;
  forgetful.start();
  forgetful.enter("pack");
  forgetful.stop();
  CHECK(forgetful.recording().spans.empty());
  CHECK(forgetful.recording().left_out == 0);
}

TEST_CASE("calls that would lose time or bytes are refused") {
  Timeline timeline;
  CHECK_THROWS_AS(timeline.enter("pack"), Error);
  CHECK_THROWS_AS(timeline.stop(), Error);
  timeline.start();
  CHECK_THROWS_AS(timeline.add(1, 1), Error);
  timeline.enter("pack");
  timeline.leave();
  CHECK_THROWS_AS(timeline.add(1, 1), Error);
  timeline.stop();
  CHECK_THROWS_AS(timeline.enter("pack"), Error);
}

TEST_CASE("a summary of no samples is all zero") {
  const Summary none = summarize({});
  CHECK(none.count == 0);
  CHECK(none.mean == 0);
  CHECK(none.median == 0);
  CHECK(none.min == 0);
  CHECK(none.max == 0);
  CHECK(none.spread == 0);
}

TEST_CASE("summaries of small sets have exact values") {
  SECTION("one sample") {
    const Summary one = summarize(std::array{2.5});
    CHECK(one.count == 1);
    CHECK(one.mean == 2.5);
    CHECK(one.median == 2.5);
    CHECK(one.min == 2.5);
    CHECK(one.max == 2.5);
    CHECK(one.spread == 0);
  }
  SECTION("an odd number: the median is a sample") {
    const Summary odd = summarize(std::array{5.0, 1.0, 3.0, 2.0, 9.0});
    CHECK(odd.count == 5);
    CHECK(odd.mean == 4);
    CHECK(odd.median == 3);
    CHECK(odd.min == 1);
    CHECK(odd.max == 9);
    CHECK(odd.spread == 0.5 * (5.0 - 2.0) / 3.0);
  }
  SECTION("an even number: the median is the middle of two, the quartiles are interpolated") {
    const Summary even = summarize(std::array{4.0, 1.0, 2.0, 3.0});
    CHECK(even.median == 2.5);
    CHECK(even.mean == 2.5);
    CHECK(even.spread == 0.5 * (3.25 - 1.75) / 2.5);
  }
  SECTION("a median of zero has no relative spread") {
    CHECK(summarize(std::array{0.0, 0.0, 1.0, 2.0, 0.0}).spread == 0);
  }
}

TEST_CASE("the bootstrap of one pair is its ratio, of none it is zero") {
  const Interval one = bootstrap_ratio(std::array{2.0}, std::array{3.0}, 1);
  CHECK(one.low == 1.5);
  CHECK(one.high == 1.5);
  const Interval none = bootstrap_ratio({}, std::array{3.0}, 1);
  CHECK(none.low == 0);
  CHECK(none.high == 0);
}

TEST_CASE("the bootstrap leaves out draws without a ratio") {
  const Interval no_base = bootstrap_ratio(std::array{0.0, 0.0}, std::array{1.0, 2.0}, 1);
  CHECK(no_base.low == 0);
  CHECK(no_base.high == 0);
  const Interval some = bootstrap_ratio(std::array{0.0, 0.0, 2.0}, std::array{1.0, 1.0, 4.0}, 1);
  CHECK(std::isfinite(some.low));
  CHECK(some.high == 2);
}

TEST_CASE("the bootstrap is a function of its input and seed") {
  std::vector<double> a, b;
  for (std::uint64_t i = 0; i < 15; ++i) {
    a.push_back(1 + uniform(1, i));
    b.push_back(2 + uniform(2, i));
  }
  const Interval first = bootstrap_ratio(a, b, 7), again = bootstrap_ratio(a, b, 7);
  CHECK(first.low == again.low);
  CHECK(first.high == again.high);
  CHECK(first.low < first.high);
  bool any_differs = false;
  for (std::uint64_t seed = 8; seed < 16; ++seed) {
    const Interval other = bootstrap_ratio(a, b, seed);
    any_differs = any_differs || other.low != first.low || other.high != first.high;
  }
  CHECK(any_differs);
}

TEST_CASE("samples drawn in pairs cancel what both arms share, unpaired ones cannot") {
  // The machine's speed wanders by a factor of two; b is always exactly 1.25 a.
  std::vector<double> a, b;
  for (std::uint64_t i = 0; i < 21; ++i) a.push_back(1 + uniform(3, i));
  for (const double value : a) b.push_back(1.25 * value);
  const Interval paired = bootstrap_ratio(a, b, 1);
  CHECK(paired.low == Approx(1.25).epsilon(1e-12));
  CHECK(paired.high == Approx(1.25).epsilon(1e-12));
  b.push_back(b.front());
  const Interval unpaired = bootstrap_ratio(a, b, 1);
  CHECK(unpaired.low < 1.2);
  CHECK(unpaired.high > 1.3);
}

TEST_CASE("the 95 % interval contains a planted ratio in about 95 % of the experiments") {
  constexpr double truth = 0.6;
  constexpr std::uint64_t experiments = 200;
  int covered = 0;
  for (std::uint64_t experiment = 0; experiment < experiments; ++experiment) {
    std::vector<double> a, b;
    for (std::uint64_t i = 0; i < 15; ++i) {
      a.push_back(1 + 0.2 * uniform(2 * experiment, i));
      b.push_back(truth * (1 + 0.2 * uniform(2 * experiment + 1, i)));
    }
    const Interval interval = bootstrap_ratio(a, b, experiment);
    covered += interval.low <= truth && truth <= interval.high;
    CHECK(interval.high - interval.low < 0.2);
  }
  CAPTURE(covered);
  CHECK(covered >= 180);
  CHECK(covered < 200);  // an interval that always contains the truth is too wide to decide anything
}

TEST_CASE("bootstrapped medians lie where medians of resamples lie, and are the same for the same seed") {
  std::vector<double> samples(101);
  std::iota(samples.begin(), samples.end(), 0.0);
  std::vector<double> medians = bootstrap_medians(samples, 2000, 1);
  CHECK(medians == bootstrap_medians(samples, 2000, 1));
  CHECK(medians != bootstrap_medians(samples, 2000, 2));
  std::sort(medians.begin(), medians.end());
  CHECK(medians.front() >= 0);
  CHECK(medians.back() <= 100);
  CHECK(quantile(medians, 0.5) == Approx(50).margin(3));
  CHECK(bootstrap_medians(std::vector<double>{3.0}, 4, 1) == std::vector<double>(4, 3.0));
  CHECK(bootstrap_medians({}, 4, 1).empty());
}

TEST_CASE("blocks of neighbours widen the medians of samples that drift") {
  std::vector<double> drifting(64), shuffled(64);
  for (std::size_t i = 0; i < 64; ++i) {
    drifting[i] = static_cast<double>(i);
    shuffled[i] = static_cast<double>(i * 27 % 64);
  }
  const auto width = [](const std::vector<double>& samples) {
    std::vector<double> medians = bootstrap_medians(samples, 4000, 1);
    std::sort(medians.begin(), medians.end());
    return quantile(medians, 0.975) - quantile(medians, 0.025);
  };
  CHECK(width(drifting) > 1.4 * width(shuffled));
}

TEST_CASE("a quantile is interpolated between order statistics") {
  const std::vector<double> sorted = {1, 2, 4};
  CHECK(quantile(sorted, 0) == 1);
  CHECK(quantile(sorted, 0.25) == 1.5);
  CHECK(quantile(sorted, 0.75) == 3);
  CHECK(quantile(sorted, 1) == 4);
}
