// Activities on resources, against times worked out by hand.
#include "project/engine.hpp"

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "project/least_squares.hpp"
#include "support/catch.hpp"

using refit::project::Engine;

namespace {

Engine::Activity add(Engine& engine, const Engine::Work& work, std::vector<Engine::Activity> after = {}) {
  return engine.add(work, after);
}

constexpr Engine::Resource kNone = Engine::kNoResource;

}  // namespace

TEST_CASE("an activity begins when the last that it waits for has ended") {
  Engine engine;
  const auto a = add(engine, {kNone, 2});
  const auto b = add(engine, {kNone, 3});
  const auto c = add(engine, {kNone, 1}, {a, b});
  engine.run();
  CHECK(engine.end(a) == Approx(2));
  CHECK(engine.start(c) == Approx(3));
  CHECK(engine.end(c) == Approx(4));
  CHECK(engine.critical_path(c) == std::vector<Engine::Activity>{b, c});
}

TEST_CASE("what is under way on a resource shares it equally, and who ends leaves it to the rest") {
  Engine engine;
  const auto memory = engine.add_resource(10);
  const auto a = add(engine, {memory, 10});
  const auto b = add(engine, {memory, 30});
  engine.run();
  CHECK(engine.end(a) == Approx(2));  // 5 a second
  CHECK(engine.end(b) == Approx(4));  // 10 units by then, 20 more at 10 a second
}

TEST_CASE("what cannot take its part leaves it to others") {
  Engine engine;
  const auto memory = engine.add_resource(10);
  const auto slow = add(engine, {memory, 10, 5});  // at most 2 a second
  const auto fast = add(engine, {memory, 32});
  engine.run();
  CHECK(engine.end(fast) == Approx(4));
  CHECK(engine.end(slow) == Approx(5));
}

TEST_CASE("an activity that begins in the middle slows the others from then on") {
  Engine engine;
  const auto memory = engine.add_resource(10);
  const auto first = add(engine, {memory, 20});
  const auto wait = add(engine, {kNone, 1});
  const auto second = add(engine, {memory, 5}, {wait});
  engine.run();
  CHECK(engine.end(second) == Approx(2));   // 5 a second from 1 on
  CHECK(engine.end(first) == Approx(2.5));  // 10, then 5, then 5 at full speed
}

TEST_CASE("nothing to move takes its least time, and no time where that is none") {
  Engine engine;
  const auto memory = engine.add_resource(10);
  const auto a = add(engine, {memory, 0, 0.5});
  const auto b = add(engine, {memory, 0}, {a});
  engine.run();
  CHECK(engine.end(b) == Approx(0.5));
}

TEST_CASE("activities that wait for each other are an error, not a hang") {
  Engine engine;
  const auto a = add(engine, {kNone, 1});
  const auto b = add(engine, {kNone, 1}, {a});
  engine.also_after(a, b);
  CHECK_THROWS(engine.run());
}

TEST_CASE("the critical path has no gaps, and no resource gives more than it has") {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    Engine engine;
    std::array<Engine::Resource, 2> resources{engine.add_resource(3), engine.add_resource(7)};
    std::array<double, 2> units{};
    std::vector<Engine::Activity> all;
    for (int i = 0; i < 60; ++i) {
      std::vector<Engine::Activity> after;
      for (int k = 0; k < 2 && !all.empty(); ++k) after.push_back(all[random() % all.size()]);
      const std::size_t which = random() % 3;
      const double work = double(random() % 100) / 10;
      if (which < 2) units[which] += work;
      all.push_back(add(engine, {which < 2 ? resources[which] : kNone, work, double(random() % 3)}, after));
    }
    const auto end = add(engine, {kNone, 0}, all);
    engine.run();
    double sum = 0, before = 0;
    for (const auto activity : engine.critical_path(end)) {
      REQUIRE(engine.start(activity) == Approx(before));
      before = engine.end(activity);
      sum += engine.end(activity) - engine.start(activity);
    }
    CHECK(sum == Approx(engine.end(end)));
    CHECK(engine.end(end) >= units[0] / 3 * (1 - 1e-9));
    CHECK(engine.end(end) >= units[1] / 7 * (1 - 1e-9));
  }
}

TEST_CASE("least squares finds what made the values") {
  // y = a exp(b t)
  const auto residuals = [](const std::vector<double>& x) {
    std::vector<double> r;
    for (int t = 0; t < 8; ++t) r.push_back(x[0] * std::exp(x[1] * t) - 2.5 * std::exp(-0.4 * t));
    return r;
  };
  const std::vector<double> x = refit::project::least_squares(residuals, {1, 0});
  CHECK(x[0] == Approx(2.5).epsilon(1e-6));
  CHECK(x[1] == Approx(-0.4).epsilon(1e-6));
}
