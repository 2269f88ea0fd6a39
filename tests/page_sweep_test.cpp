// The page of a sweep: every point is drawn or said to be missing, and no value of one is ever more than
// text.
#include <cmath>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "page/scale.hpp"
#include "refit/page/page.hpp"
#include "refit/report/sweep.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"
#include "support/page_checks.hpp"
#include "support/sample_report.hpp"

using namespace refit;
using page::to_html;
using test::between;
using test::check_nesting;
using test::check_numbers;
using test::count;

namespace {

using Axis = std::pair<std::string, std::vector<std::string>>;

report::Report refused(const std::string& why) {
  report::Report report = test::sample();
  report.status = report::Status::refused;
  report.message = why;
  report.result.reset();
  report.replay.reset();
  return report;
}

/// A sweep over one or two axes, each point the sample but those at `refused_at`.
Json sweep_of(const std::vector<Axis>& axes, const std::vector<std::size_t>& refused_at = {}) {
  std::vector<scenario::SweepPoint> points(1);
  for (const auto& [key, values] : axes) {
    std::vector<scenario::SweepPoint> longer;
    for (const scenario::SweepPoint& point : points) {
      for (const std::string& value : values) {
        longer.push_back(point);
        longer.back().emplace_back(key, value);
      }
    }
    points = longer;
  }
  report::SweepReport sweep(points);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool no = std::find(refused_at.begin(), refused_at.end(), i) != refused_at.end();
    (void)sweep.add(no ? refused("needs <more> memory & time") : test::sample());
  }
  return Json::parse(sweep.to_json());
}

std::string page_of(const Json& sweep) {
  return to_html(sweep.dump(), "s.json");
}

std::string curve_of(const std::string& html) {
  return between(html, "<section id=\"curve\">", "</section>");
}

Json& transfer_of(Json& point, const char* arm) {
  return point["result"]["arms"][arm]["phases"][test::kTransfer];
}

const Axis kSizes{"buffer_size", {"64MiB", "256MiB", "1GiB", "4GiB"}};

}  // namespace

TEST_CASE("a sweep over sizes is two curves on a logarithmic axis with whiskers and the floor") {
  const std::string html = page_of(sweep_of({kSizes}));
  check_nesting(html);
  CHECK(contains(html, "sweep of buffer_size</title>"));
  for (const char* id : {"verdict", "curve", "points", "environment", "save", "result"}) {
    CAPTURE(id);
    CHECK(count(html, std::string("id=\"") + id + '"') == 1);
  }
  const std::string curve = curve_of(html);
  CHECK(count(curve, "<figure") == 1);
  CHECK(count(curve, "class=\"curve control\"") == 3);
  CHECK(count(curve, "class=\"curve treatment\"") == 3);
  CHECK(count(curve, "class=\"reach ") == 2 * 4);
  CHECK(count(curve, "class=\"floor\"") == 3 + 1);  // and in the legend
  // Each size is four times the one before: as far from it as the next.
  for (const char* x : {"5.00%", "35.00%", "65.00%", "95.00%"}) {
    CAPTURE(x);
    CHECK(contains(curve, std::string("<text x=\"") + x));
  }
  CHECK(contains(curve,
                 "<title>buffer_size 256MiB, control: 3.000\u00a0s (2.000\u00a0s to 4.000\u00a0s)</title>"));
  CHECK(contains(html, "Every compared byte of all 4 points is equal."));
}

TEST_CASE("numbers within a decade and names stand side by side, and only numbers are joined") {
  const std::string threads = curve_of(page_of(sweep_of({{"threads", {"4", "1", "2"}}})));
  CHECK(count(threads, "class=\"curve control\"") == 2);
  CHECK(threads.find(">1</text>") < threads.find(">2</text>"));
  CHECK(threads.find(">2</text>") < threads.find(">4</text>"));
  const std::string names = curve_of(page_of(sweep_of({{"shuffle", {"in-place", "fused"}}})));
  CHECK(count(names, "class=\"curve ") == 0);
  CHECK(count(names, "class=\"point control\"") == 2 + 1);
  CHECK(names.find(">in-place</text>") < names.find(">fused</text>"));
}

TEST_CASE("a second axis is a panel for each of its values, whichever comes first in the alphabet") {
  const std::string html =
      page_of(sweep_of({{"threads", {"1", "2", "3"}}, {"buffer_size", {"1MiB", "64MiB"}}}));
  check_nesting(html);
  const std::string curve = curve_of(html);
  CHECK(count(curve, "<figure class=\"panel\">") == 2);
  CHECK(contains(curve, "<strong>buffer_size 1MiB</strong>"));
  CHECK(contains(curve, "<strong>buffer_size 64MiB</strong>"));
  CHECK(contains(curve, "weights over threads</h2>"));
  CHECK(contains(between(html, "<section id=\"points\">", "</section>"),
                 "<th scope=\"row\">1</th><td>64MiB</td><td>3.0000</td><td>1.5000</td><td>0.500</td>"));
}

TEST_CASE("more panels than anybody looks at are left out, and it is said") {
  std::vector<std::string> many;
  for (int i = 1; i <= 100; ++i) many.push_back(std::to_string(i));
  const std::string html = page_of(sweep_of({{"layers", {"1", "2"}}, {"threads", many}}));
  CHECK(count(curve_of(html), "<figure class=\"panel\">") == 64);
  CHECK(contains(html, "the first 64 of 100 panels"));
  CHECK(count(between(html, "<section id=\"points\">", "</section>"), "<th scope=\"row\">") == 200);
}

TEST_CASE("one point is drawn, without a curve") {
  const std::string html = page_of(sweep_of({{"buffer_size", {"64MiB"}}}));
  check_nesting(html);
  const std::string curve = curve_of(html);
  CHECK(count(curve, "class=\"curve ") == 0);
  CHECK(count(curve, "<title>buffer_size 64MiB, ") == 2);
  CHECK(count(curve, "class=\"floor\"") == 2);
  CHECK(contains(html, "Every compared byte of the one point is equal."));
}

TEST_CASE("points that did not run are crosses with their reason, and no curve goes over them") {
  const std::string html = page_of(sweep_of({kSizes}, {1}));
  check_nesting(html);
  const std::string curve = curve_of(html);
  CHECK(count(curve, "class=\"cross\"") == 2);
  CHECK(count(curve, "class=\"curve control\"") == 1);
  CHECK(contains(curve, "<title>buffer_size 256MiB: refused, needs &lt;more&gt; memory &amp; time</title>"));
  CHECK(contains(curve, "refused</strong> at buffer_size 256MiB: needs &lt;more&gt; memory"));
  CHECK(contains(html, "<strong>Refused</strong><p>1 of 4 points:</p><ul><li>buffer_size 256MiB</li></ul>"));
  CHECK(contains(between(html, "<section id=\"points\">", "</section>"), "<td>refused</td>"));
  const std::string none = page_of(sweep_of({kSizes}, {0, 1, 2, 3}));
  check_nesting(none);
  CHECK(contains(none, "refused</strong> at buffer_size 64MiB; buffer_size 256MiB; "));
  CHECK(!contains(curve_of(none), "<figure"));
}

TEST_CASE("wrong bytes at one point are the first thing a sweep says, whatever its status") {
  Json sweep = sweep_of({kSizes}, {0});
  sweep["points"][2]["result"]["arms"]["treatment"]["verify"]["wire"]["mismatches"] = 1;
  const std::string html = page_of(sweep);
  CHECK(contains(html, "<div class=\"banner bad\""));
  CHECK(contains(html,
                 "<strong>Verification failed</strong><p>1 of 4 points:</p><ul><li>buffer_size 1GiB</li>"));
  CHECK(count(curve_of(html), "class=\"ring\"") == 2);
  CHECK(contains(html, "\u2717 differs"));
}

TEST_CASE("a sweep that was planned alone has a table") {
  Json sweep = sweep_of({{"layers", {"1", "2"}}});
  for (Json& point : sweep["points"]) {
    point["result"]["status"] = "dry-run";
    for (const char* arm : {"control", "treatment"})
      point["result"]["arms"][arm]["phases"].erase(test::kTransfer);
  }
  const std::string html = page_of(sweep);
  check_nesting(html);
  CHECK(contains(html, "<strong>Dry run</strong>"));
  CHECK(!contains(html, "id=\"curve\""));
  CHECK(contains(html, "<th scope=\"row\">2</th><td>\u2013</td>"));
}

TEST_CASE("arms that are more than ten times apart share a logarithmic scale") {
  Json sweep = sweep_of({kSizes});
  for (Json& point : sweep["points"]) {
    transfer_of(point, "treatment")["median_s"] = 0.0031;
    transfer_of(point, "treatment")["samples_s"] = {0.003, 0.0031, 0.004};
  }
  const std::string html = page_of(sweep);
  CHECK(contains(html, "The axis of seconds is logarithmic."));
  CHECK(!contains(page_of(sweep_of({kSizes})), "The axis of seconds is logarithmic."));
}

TEST_CASE("a scale is straight within a decade, logarithmic beyond, and survives anything") {
  using page::Scale;
  const Scale straight(1, 10, 0), wide(1, 1000, 0);
  CHECK(!straight.logarithmic());
  CHECK(straight.share(5) == 0.5);
  CHECK(straight.marks(5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(wide.logarithmic());
  CHECK(wide.share(10) == Approx(1.0 / 3));
  CHECK(wide.share(0) == 0);
  CHECK(wide.marks(5).size() == 4);
  for (const auto& [least, most] : {std::pair{0.0, 0.0}, {0.0, 1e12}, {5e-324, 1e12}, {3.0, 3.0}}) {
    CAPTURE(least, most);
    const Scale scale(least, most, 0);
    for (const double value : {0.0, least, most, 1e12}) {
      CHECK(scale.share(value) >= 0);
      CHECK(scale.share(value) <= 1);
    }
    CHECK(scale.marks(5).size() <= 16);
  }
}

TEST_CASE("names and reasons of a sweep are text in its page") {
  const std::string attack = "</script></title><script>alert(1)</script>\"'><!-- &amp; \xE2\x80\xAE\x1b[31m";
  Json sweep = sweep_of({{"shuffle", {"a", "b"}}, {"commit", {"c", "d"}}}, {3});
  for (Json& point : sweep["points"]) {
    point["set"][attack] = point["set"]["shuffle"].get<std::string>() + attack;
    point["set"].erase("shuffle");
    point["result"]["scenario"]["name"] = point["result"]["scenario"]["title"] = attack;
  }
  sweep["points"][3]["result"]["refused"] = attack;
  const std::string html = page_of(sweep);
  check_nesting(html);
  CHECK(count(html, "<script") == 2);
  CHECK(count(html, "</script") == 2);
  CHECK(!contains(html, "<!--"));
  CHECK(!contains(html, "\x1b"));
  CHECK(!contains(html.substr(0, html.find("<script type")), "\xE2\x80\xAE"));
  CHECK(Json::parse(between(html, "<script type=\"application/json\" id=\"result\">", "</script>")) == sweep);
}

TEST_CASE("what is no refit-sweep/1 is refused with file and key") {
  const auto refuses = [](const Json& sweep, const auto&... parts) {
    check_input_error([&] { (void)page_of(sweep); }, "s.json", parts...);
  };
  refuses({{"schema", "refit-sweep/2"}}, "/schema", "refit-sweep/1");
  refuses({{"schema", "refit-sweep/1"}}, "/points", "missing");
  refuses({{"schema", "refit-sweep/1"}, {"points", Json::array()}}, "/points", "no point");
  Json sweep = sweep_of({kSizes});
  sweep["points"][2]["set"] = {{"threads", 1}};
  refuses(sweep, "/points/2/set", "other keys");
  sweep = sweep_of({kSizes});
  sweep["points"][1]["set"] = Json::object();
  refuses(sweep, "/points/1/set");
  sweep = sweep_of({kSizes});
  sweep["points"][3]["result"]["schema"] = "refit-sweep/1";
  refuses(sweep, "/points/3/result/schema");
  sweep = sweep_of({kSizes});
  transfer_of(sweep["points"][1], "control")["median_s"] = "soon";
  refuses(sweep, "/points/1/result/arms/control/phases");
}

TEST_CASE(
    "a sweep in which any value is missing or odd gives a page or a refusal, and no number that is none") {
  const Json sweep = sweep_of({{"buffer_size", {"1MiB", "64MiB"}}});
  const std::vector<Json> odd = {nullptr, -1, 1e308, 1e12, "text", 5e-324, 0, Json::array()};
  std::size_t pages = 0;
  for (const char* key : {"median_s", "samples_s", "x_floor", "source"}) {
    for (const Json& value : odd) {
      Json changed = sweep;
      transfer_of(changed["points"][0], "treatment")[key] = value;
      CAPTURE(key, value.dump());
      std::string html;
      try {
        html = page_of(changed);
        ++pages;
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::input);
        continue;
      }
      check_nesting(html);
      check_numbers(html);
    }
  }
  CHECK(pages > 8);
}

TEST_CASE("more points than a sweep can have are refused, and one without a compared refit is not verified") {
  Json sweep = sweep_of({kSizes});
  CHECK(contains(page_of(sweep), "<strong>Verified</strong>"));
  sweep["points"][2]["result"]["arms"]["control"]["verified_refits"] = 0;
  CHECK(contains(page_of(sweep), "<strong>Not verified</strong>"));
  Json many = {{"schema", "refit-sweep/1"}, {"points", Json::array()}};
  for (int i = 0; i < 10'001; ++i) many["points"].push_back({{"set", {{"threads", i}}}});
  check_input_error([&] { (void)page_of(many); }, "/points", "at most 10000");
}
