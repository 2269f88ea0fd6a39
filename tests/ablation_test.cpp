// Games whose Shapley values and interactions are known by hand, and measured ones with planted effects.
#include "refit/ablation/ablation.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "refit/ablation/factors.hpp"
#include "refit/ablation/report.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"

using namespace refit;
using namespace refit::ablation;

namespace {

bool has(Subset subset, std::size_t factor) {
  return (subset >> factor & 1) != 0;
}

/// What each combination of a method is worth, without draws.
Worths game(Method method, std::size_t factors, const std::function<double(Subset)>& value) {
  Worths worths;
  for (const Subset subset : needed(method, factors)) worths[subset] = {.s = value(subset)};
  return worths;
}

Attribution shapley(std::size_t factors, const std::function<double(Subset)>& value) {
  return attribute(Method::shapley, factors, game(Method::shapley, factors, value));
}

double interaction_of(const Attribution& found, std::size_t first, std::size_t second) {
  for (const Pair& pair : found.pairs) {
    if (pair.first == first && pair.second == second) return pair.interaction->s;
  }
  FAIL("no such pair");
  return 0;
}

/// Steps of a control that drifts by a tenth, of a combination that is `effect` away, both with noise.
Worth measured(double effect, double noise, std::size_t steps, Subset subset, std::mt19937_64& random) {
  std::normal_distribution<double> error(0, noise);
  std::vector<double> control, treatment;
  for (std::size_t i = 0; i < steps; ++i) {
    const double now = 1 + 0.1 * static_cast<double>(i) / static_cast<double>(steps);
    control.push_back(now + error(random));
    treatment.push_back(now + effect + error(random));
  }
  return measured_worth(control, treatment, subset);
}

bool covers(const std::optional<Estimate>& estimate, double value) {
  return estimate->ci95->low <= value && value <= estimate->ci95->high;
}

std::vector<Setting> settings() {
  return {{"prequantize", "off", "on"},
          {"loader", "lookup", "cached"},
          {"shuffle", "per-expert", "batched"},
          {"handles", "per-bucket", "per-bucket"},
          {"offload", "full", "slim", "there is no host traffic"}};
}

}  // namespace

TEST_CASE("In an additive game every effect is the factor's own and nothing interacts") {
  const std::vector<double> own{-3, 0.5, -1.25, 0};
  const auto value = [&](Subset s) {
    double sum = 0;
    for (std::size_t i = 0; i < own.size(); ++i) sum += has(s, i) ? own[i] : 0;
    return sum;
  };
  const Attribution found = shapley(own.size(), value);
  for (std::size_t i = 0; i < own.size(); ++i) {
    CHECK(found.effects[i].shapley->s == Approx(own[i]).margin(1e-12));
    CHECK(found.effects[i].alone->s == Approx(own[i]).margin(1e-12));
    CHECK(found.effects[i].last->s == Approx(own[i]).margin(1e-12));
  }
  CHECK(found.interaction->s == Approx(0).margin(1e-12));
  CHECK(found.pairs.size() == 6);
  for (const Pair& pair : found.pairs) CHECK(pair.interaction->s == Approx(0).margin(1e-12));
}

TEST_CASE("What only two factors together are worth is halved between them, and a dummy gets nothing") {
  const auto value = [](Subset s) { return has(s, 0) && has(s, 1) ? -6.0 : 0.0; };
  const Attribution found = shapley(3, value);
  CHECK(found.effects[0].shapley->s == Approx(-3));
  CHECK(found.effects[1].shapley->s == Approx(-3));
  CHECK(found.effects[2].shapley->s == Approx(0).margin(1e-12));
  CHECK(found.effects[0].alone->s == 0);
  CHECK(found.effects[0].last->s == -6);
  CHECK(found.interaction->s == Approx(-6));
  CHECK(interaction_of(found, 0, 1) == Approx(-6));
  CHECK(interaction_of(found, 0, 2) == Approx(0).margin(1e-12));
}

TEST_CASE("The glove game has the Shapley values of the textbook") {
  // One has a left glove, two have a right one; a pair is worth 1: 2/3, 1/6, 1/6.
  const auto value = [](Subset s) { return has(s, 0) && (has(s, 1) || has(s, 2)) ? 1.0 : 0.0; };
  const Attribution found = shapley(3, value);
  CHECK(found.effects[0].shapley->s == Approx(2.0 / 3));
  CHECK(found.effects[1].shapley->s == Approx(1.0 / 6));
  CHECK(found.effects[2].shapley->s == Approx(1.0 / 6));
  // Shapley-Taylor by hand: 2/3 (1 + 0/2) for a left and a right one, 2/3 (0 - 1/2) for both right ones.
  CHECK(interaction_of(found, 0, 1) == Approx(2.0 / 3));
  CHECK(interaction_of(found, 0, 2) == Approx(2.0 / 3));
  CHECK(interaction_of(found, 1, 2) == Approx(-1.0 / 3));
}

TEST_CASE("Factors that are alike get alike") {
  const std::vector<double> by_count{0, -1, -5, -5.5, -9};
  const auto value = [&](Subset s) { return by_count[static_cast<std::size_t>(std::popcount(s))]; };
  const Attribution found = shapley(4, value);
  for (const Effect& effect : found.effects) CHECK(effect.shapley->s == Approx(-9.0 / 4));
  for (const Pair& pair : found.pairs) CHECK(pair.interaction->s == Approx((-9.0 + 4) / 6));
}

TEST_CASE("Shapley values sum to the whole, and pairs to the whole less what each is alone, in any game") {
  std::mt19937_64 random(20261201);
  std::normal_distribution<double> any(0, 10);
  for (std::size_t factors = 1; factors <= kMostShapleyFactors; ++factors) {
    for (int round = 0; round < 20; ++round) {
      const Worths worths = game(Method::shapley, factors, [&](Subset) { return any(random); });
      const Attribution found = attribute(Method::shapley, factors, worths);
      double sum = 0, pairs = 0, alone = 0;
      for (const Effect& effect : found.effects) {
        sum += effect.shapley->s;
        alone += effect.alone->s;
      }
      for (const Pair& pair : found.pairs) pairs += pair.interaction->s;
      const double whole = worths.at(all_of(factors)).s;
      CHECK(found.whole->s == whole);
      CHECK(sum == Approx(whole).margin(1e-11));
      CHECK(found.sum->s == Approx(whole).margin(1e-11));
      CHECK(found.interaction->s == Approx(whole - alone).margin(1e-11));
      if (factors > 1) CHECK(pairs == Approx(whole - alone).margin(1e-11));
    }
  }
}

TEST_CASE("Each method needs its combinations, everything on among them, and never the control") {
  CHECK(needed(Method::one_on, 3) == std::vector<Subset>{1, 2, 4, 7});
  CHECK(needed(Method::one_off, 3) == std::vector<Subset>{3, 5, 6, 7});
  CHECK(needed(Method::shapley, 3) == std::vector<Subset>{1, 2, 3, 4, 5, 6, 7});
  for (const Method method : {Method::one_on, Method::one_off, Method::shapley}) {
    CHECK(needed(method, 1) == std::vector<Subset>{1});
    CHECK(parse_method(name_of(method)) == method);
  }
  CHECK(needed(Method::shapley, 6).size() == 63);
  CHECK(needed(Method::one_on, 9).size() == 10);
}

TEST_CASE("One-on and one-off give their own effects and what is left over, and nothing else") {
  const auto value = [](Subset s) { return (has(s, 0) ? -2.0 : 0.0) + (s == 3 ? -5.0 : 0.0); };
  const Attribution on = attribute(Method::one_on, 2, game(Method::one_on, 2, value));
  CHECK(on.effects[0].alone->s == -2);
  CHECK(on.sum->s == -2);
  CHECK(on.interaction->s == -5);
  CHECK_FALSE(on.effects[0].shapley);
  CHECK_FALSE(on.effects[0].last);
  CHECK(on.pairs.empty());
  const Attribution off = attribute(Method::one_off, 2, game(Method::one_off, 2, value));
  CHECK(off.effects[0].last->s == -7);
  CHECK(off.effects[1].last->s == -5);
  CHECK(off.interaction->s == 5);
  CHECK_FALSE(off.effects[0].alone);
}

TEST_CASE("Nothing is attributed from a combination that is missing, and it is named") {
  Worths worths = game(Method::shapley, 3, [](Subset s) { return -double(s); });
  worths.erase(5);
  const Attribution found = attribute(Method::shapley, 3, worths);
  CHECK(found.missing == std::vector<Subset>{5});
  for (const Effect& effect : found.effects) CHECK_FALSE(effect.shapley);
  CHECK_FALSE(found.sum);
  CHECK(found.whole->s == -7);
  CHECK(found.effects[0].alone->s == -1);
  CHECK(found.effects[0].last->s == -1);
  CHECK_FALSE(found.effects[1].last);
  CHECK(found.combinations.count(5) == 0);

  Worths on = game(Method::one_on, 2, [](Subset s) { return -double(s); });
  on.erase(3);
  const Attribution partly = attribute(Method::one_on, 2, on);
  CHECK(partly.effects[1].alone->s == -2);
  CHECK_FALSE(partly.whole);
  CHECK_FALSE(partly.interaction);
}

TEST_CASE("Pairs of the same step cancel what drifts, and few of them have no interval") {
  const std::vector<double> control{10, 20, 30, 40, 50}, faster{9, 19, 29, 39, 49};
  const Worth worth = measured_worth(control, faster, 1);
  CHECK(worth.s == -1);
  REQUIRE(worth.draws.size() == kDraws);
  const Attribution found = attribute(Method::one_on, 1, {{1, worth}});
  CHECK(found.whole->ci95->low == -1);
  CHECK(found.whole->ci95->high == -1);
  const std::vector<double> few{1, 2, 3, 4};
  CHECK(measured_worth(few, few, 1).draws.empty());
  CHECK_FALSE(attribute(Method::one_on, 1, {{1, measured_worth(few, few, 1)}}).whole->ci95);
  check_input_error([&] { (void)measured_worth(control, few, 1); }, "5 samples", "and 4");
}

TEST_CASE("What the second of two arms loses in each step is nobody's effect") {
  std::vector<double> control, treatment;
  for (int step = 0; step < 20; ++step) {
    const bool control_first = step % 2 == 0;
    control.push_back(control_first ? 1.0 : 1.25);
    treatment.push_back(control_first ? 1.25 : 1.0);
  }
  control.push_back(1.0);  // an odd number of steps, too
  treatment.push_back(1.25);
  const Worth worth = measured_worth(control, treatment, 1);
  CHECK(worth.s == 0);
  CHECK(*std::max_element(worth.draws.begin(), worth.draws.end()) == 0);
}

TEST_CASE("Draws are the same each time and independent from bench to bench") {
  std::mt19937_64 random(5);
  std::vector<double> control(20, 1.0), treatment;
  for (std::size_t i = 0; i < control.size(); ++i)
    treatment.push_back(std::normal_distribution<>(1, 0.1)(random));
  CHECK(measured_worth(control, treatment, 1).draws == measured_worth(control, treatment, 1).draws);
  CHECK(measured_worth(control, treatment, 1).draws != measured_worth(control, treatment, 2).draws);
}

TEST_CASE("Intervals hold a planted effect, and 0 of a factor that does nothing, as often as they say") {
  std::mt19937_64 random(20261201);
  constexpr int kRounds = 200;
  int planted = 0, dummy = 0, whole = 0, pair = 0, found_it = 0;
  for (int round = 0; round < kRounds; ++round) {
    Worths worths;
    for (const Subset s : needed(Method::shapley, 3)) {
      const double effect = (has(s, 0) ? -0.2 : 0.0) + (has(s, 0) && has(s, 1) ? -0.1 : 0.0);
      worths[s] = measured(effect, 0.03, 20, s, random);
    }
    const Attribution found = attribute(Method::shapley, 3, worths);
    planted += covers(found.effects[0].shapley, -0.25) ? 1 : 0;
    dummy += covers(found.effects[2].shapley, 0) ? 1 : 0;
    whole += covers(found.sum, -0.3) ? 1 : 0;
    pair += covers(found.pairs[0].interaction, -0.1) ? 1 : 0;
    found_it += covers(found.effects[0].shapley, 0) ? 0 : 1;
    CHECK(found.sum->ci95->low == Approx(found.whole->ci95->low));
    CHECK(found.sum->ci95->high == Approx(found.whole->ci95->high));
  }
  INFO("of " << kRounds << ": planted " << planted << ", dummy " << dummy << ", whole " << whole << ", pair "
             << pair);
  for (const int count : {planted, dummy, whole, pair}) CHECK(count >= kRounds * 9 / 10);
  CHECK(found_it == kRounds);
}

TEST_CASE("Every switch that differs and is looked at is a factor, unless some are chosen or joined") {
  const std::vector<Factor> each = choose_factors(settings(), "");
  CHECK(names_of(each, all_of(each.size())) == std::vector<std::string>{"prequantize", "loader", "shuffle"});
  const std::vector<Factor> chosen = choose_factors(settings(), "shuffle+loader,prequantize");
  REQUIRE(chosen.size() == 2);
  CHECK(chosen[0].name == "shuffle+loader");
  CHECK(chosen[0].settings.size() == 2);
  CHECK(chosen[0].settings[1].treatment == "cached");
  CHECK(label(each, 7) == "all");
  CHECK(label(each, 5) == "all but loader");
  CHECK(label(each, 2) == "loader");
  CHECK(label(each, 0) == "none");
}

TEST_CASE("Factors that cannot be are refused with the reason") {
  const auto choosing = [](std::string_view text) {
    return [text] { (void)choose_factors(settings(), text); };
  };
  check_input_error(choosing("lodaer"), "did you mean \"loader\"");
  check_input_error(choosing("zzzzzzzzzzzzzzzzzzzzzzzzzzz"), "there are prequantize, loader");
  check_input_error(choosing("handles"), "per-bucket in both arms");
  check_input_error(choosing("offload"), "no host traffic");
  check_input_error(choosing("loader,shuffle+loader"), "loader", "twice");
  check_input_error(choosing("loader,"), "SWITCH");
  check_input_error(choosing("loader++shuffle"), "SWITCH");
  check_input_error(
      [] {
        (void)choose_factors({{"loader", "cached", "cached"}}, "");
      },
      "nothing to attribute");
  check_input_error([] { (void)needed(Method::shapley, 7); }, "127 benches", "'+'");
  check_input_error([] { (void)needed(Method::one_on, 0); }, "no factor");
  check_input_error([] { (void)parse_method("shapely"); }, "shapely", "one-on");
}

TEST_CASE("What was measured and what was projected are objects and tables of their own") {
  Result result{.scenario = "made-up",
                .method = Method::shapley,
                .factors = choose_factors(settings(), "prequantize,loader"),
                .left_out = {settings()[2]},
                .measured = {},
                .projected = {}};
  const auto value = [](Subset s) { return -double(s); };
  Worths partly = game(Method::shapley, 2, value);
  partly.erase(2);
  result.measured = Measured{{{"timer", 10.0, attribute(Method::shapley, 2, partly)}}, {{1, "{\"a\": 1}"}}};
  result.projected = Projected{
      "b200", "nemo-rl", {"stack nemo-rl, fitted: gather"}, {}, {{"timer", 20.0, shapley(2, value)}}};
  const Json json = parse_json(to_json(result), "json");
  CHECK(json.at("schema") == "refit-ablation/1");
  CHECK(json.at("left_as_in_control").at(0).at("name") == "shuffle");
  const Json& measured = json.at("measured");
  CHECK(measured.at("missing") == Json::parse(R"([["loader"]])"));
  CHECK(measured.at("benches").at(0).at("result").at("a") == 1);
  CHECK(measured.at("phases").at("timer").at("effects").at(0).at("shapley").is_null());
  const Json& projected = json.at("projected").at("phases").at("timer");
  CHECK(projected.at("whole").at("value_s") == -3);
  CHECK(projected.at("whole").at("low_s").is_null());
  CHECK(projected.at("effects").at(1).at("shapley").at("value_s") == -2);
  const std::string text = to_text(result);
  CHECK(text.find("MEASURED") < text.find("PROJECTED, nothing of this ran"));
  CHECK(text.find("MISSING, and with it whatever rests on it: loader\n") != std::string::npos);
  CHECK(text.find("66.7 %") != std::string::npos);
  CHECK(text.find("As in the control throughout: shuffle") != std::string::npos);
}
