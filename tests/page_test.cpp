// The page: everything is in it, nothing is loaded, and no string of a result is ever more than text.
#include "refit/page/page.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "page/style.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"
#include "support/page_checks.hpp"
#include "support/sample_report.hpp"
#include "support/sha256.hpp"

using namespace refit;
using page::to_html;
using test::between;
using test::check_nesting;
using test::check_numbers;
using test::count;

namespace {

const std::string kResults = std::string(REFIT_TESTS_DIR) + "/../results/";
const std::string kOneRank = kResults + "2026-11-30-h200-qwen3-30b/control-direct.json";
const std::string kManyRanks = kResults + "2026-11-30-2xh200-qwen3-30b/tp2-nccl.json";

std::string page_of(const Json& result) {
  return to_html(result.dump(), "r.json");
}

std::string page_of(const report::Report& report) {
  return to_html(report::to_json(report), "r.json");
}

std::string base64(std::span<const unsigned char> bytes) {
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned group = 0;
    for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (i + k < bytes.size() ? bytes[i + k] : 0u);
    for (std::size_t k = 0; k < 4; ++k) {
      text += i + k <= bytes.size() ? letters[group >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

report::Report mismatched() {
  report::Report report = test::sample();
  verify::Result& layout = report.result->treatment.verdict[verify::Check::layout];
  layout.add({"model.w13", 7, "0x7e", "0x00", 12, "differs from the per-expert reference"});
  layout.mismatches = 12;
  report.status = report::status_of(*report.result);
  return report;
}

report::Report without_result(report::Status status, const std::string& message) {
  report::Report report = test::sample();
  report.status = status;
  report.message = message;
  report.result.reset();
  return report;
}

}  // namespace

TEST_CASE("a page of a result has everything, balanced, and asks nobody for anything") {
  const std::string html = page::file_to_html(kOneRank);
  check_nesting(html);
  CHECK(html.starts_with("<!DOCTYPE html>"));
  CHECK(contains(html, "<title>refit-bench: qwen3-30b, ok</title>"));
  for (const char* id : {"verdict", "headline", "bars", "published", "phases", "steps", "stages", "memory",
                         "verification", "setup", "environment", "save", "result"}) {
    CAPTURE(id);
    CHECK(count(html, std::string("id=\"") + id + '"') == 1);
  }
  for (const char* outside :
       {"http:", "https:", " src=", "@import", "<link", "<img", "<iframe", "@font-face"}) {
    CAPTURE(outside);
    const std::string shown = html.substr(0, html.find("<script type=\"application/json\""));
    CHECK(!contains(shown, outside));
  }
  CHECK(contains(html, "default-src 'none'"));
}

TEST_CASE("only the page's own script may run: the policy holds its digest") {
  const std::string script = page::kScript;
  const std::string hex = test::sha256_hex(std::as_bytes(std::span(script)));
  std::vector<unsigned char> digest;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    digest.push_back(static_cast<unsigned char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  CHECK(page::kScriptDigest == "sha256-" + base64(digest));
  CHECK(contains(page::file_to_html(kOneRank), "<script>" + script + "</script>"));
}

TEST_CASE("both arms are drawn one above the other on one scale, and the same stage looks the same") {
  const std::string html = page::file_to_html(kOneRank);
  const std::string bars = between(html, "<section id=\"bars\">", "</figure>");
  CHECK(contains(bars, "aria-label=\"control, trainer\""));
  CHECK(contains(bars, "aria-label=\"control, generator\""));
  CHECK(contains(bars, "aria-label=\"treatment, trainer\""));
  CHECK(bars.find("<strong>control</strong>") < bars.find("<strong>treatment</strong>"));
  CHECK(contains(bars, "518.8\u00a0ms"));
  CHECK(contains(bars, "22.95\u00a0ms"));
  // 88.49 ms of 518.8 ms.
  CHECK(contains(bars, "width=\"17.0"));
  CHECK(contains(bars, "class=\"c0 edge\"><title>pack: 88.49\u00a0ms"));
  CHECK(contains(bars, "class=\"idle edge\"><title>wait: 367.6\u00a0ms"));
  // The GPU's own times are drawn from the same looks.
  CHECK(contains(html, "class=\"c0 edge\"><title>pack: 160.7\u00a0ms"));
}

TEST_CASE("numbers are those of the result, in one unit a table") {
  const std::string html = page::file_to_html(kOneRank);
  const std::string phases = between(html, "<section id=\"phases\">", "</section>");
  CHECK(contains(phases, "median, ms"));
  CHECK(contains(phases,
                 "<td>518.799</td><td>22.953</td><td>\u221295.6\u00a0%</td><td>7.2</td><td>2.2</td>"
                 "<td>23.58</td><td>1.04</td><td>9.67</td><td>2.98</td>"));
  CHECK(!contains(phases, "offload_before_refit"));  // no byte is offloaded here
  const std::string stages = between(html, "<section id=\"stages\">", "</section>");
  CHECK(contains(stages, "<th scope=\"row\"><bdi>pack</bdi></th><td>88.494</td><td>\u2013</td>"));
  CHECK(contains(stages, "<td>122.13 GB</td>"));
  CHECK(contains(html, "22.6\u00a0\u00d7 as fast"));
  CHECK(contains(html, "takes 4.42\u00a0% of control\u2019s time (95\u00a0%: 3.95 to 4.6\u00a0%)"));
  CHECK(contains(between(html, "<section id=\"memory\">", "</section>"), "5.22 GB"));
}

TEST_CASE("offload is part of the bar where bytes are offloaded") {
  const std::string html = page_of(test::sample());
  const std::string bars = between(html, "<section id=\"bars\">", "</section>");
  CHECK(contains(bars, "<title>offload: 1.000\u00a0s</title>"));
  const std::string phases = between(html, "<section id=\"phases\">", "</section>");
  CHECK(contains(phases, "offload_before_refit</bdi> *"));
  CHECK(contains(html, "<dt>Stand-in</dt>"));
  CHECK(contains(html, "medians \u00d7 4.00, computed"));
  CHECK(contains(phases, "extrapolated, s"));
  CHECK(contains(phases, "<td>12.000</td><td>6.000</td>"));
}

TEST_CASE("what was projected stands apart, says that nothing of it ran, and is nothing where nobody asked") {
  Json json = read_json_file(kOneRank);
  CHECK(to_html(json.dump(), "r.json").find("Projected elsewhere") == std::string::npos);
  const Json seconds{{"projected_s", 11.25}, {"low_s", 5.5}, {"high_s", nullptr}};
  const Json whole{{"projected_s", 3.5}, {"low_s", 1.75}, {"high_s", 7.0}};
  const auto arm = [](const Json& transfer) {
    return Json{{"phases", {{"prepare_for_generation/transfer_and_update_weights", transfer}}}};
  };
  json["projected"] = {{"platform", {{"title", "B<200>"}}},
                       {"stack", {{"title", "a stack"}}},
                       {"cluster", "ep=16"},
                       {"assumed", {"It is \u202e so."}},
                       {"arms", {{"control", arm(seconds)}, {"treatment", arm(whole)}}}};
  const std::string html = to_html(json.dump(), "r.json");
  check_nesting(html);
  const std::string part = between(html, "Projected elsewhere", "</section>");
  CHECK(part.find("Nothing of this ran: the whole model on B&lt;200&gt; with a stack, ep=16.") !=
        std::string::npos);
  CHECK(part.find("68.9") != std::string::npos);
  CHECK(part.find("..") != std::string::npos);
  json["projected"]["arms"].erase("control");
  check_input_error([&] { (void)to_html(json.dump(), "r.json"); }, "r.json", "control");
}

TEST_CASE("every refit is a point, and of very many several share one") {
  const std::string html = page::file_to_html(kOneRank);
  const std::string steps = between(html, "<section id=\"steps\">", "</section>");
  CHECK(count(steps, "<circle") == 22);  // with two to warm up
  CHECK(count(steps, "<rect") == 22);
  CHECK(count(steps, "warmup control") == 2);
  report::Report report = test::sample();
  report.result->control.phases[test::kTransfer].seconds.assign(10'000, 2);
  const std::string many = between(page_of(report), "<section id=\"steps\">", "</section>");
  CHECK(count(many, "<circle") == 400 + 2);
  CHECK(contains(many, "steps 26 to 50: 2.000\u00a0s"));
  CHECK(contains(many, "10\u202f000 refits"));
}

TEST_CASE("ranks are a map of stages, a table and columns of memory, the slowest marked") {
  const std::string html = page::file_to_html(kManyRanks);
  check_nesting(html);
  const std::string ranks = between(html, "<section id=\"ranks\">", "</section>");
  CHECK(count(ranks, "class=\"heat\" fill-opacity") == 2 * (2 * 6 + 12));  // cells and the key, twice
  CHECK(count(ranks, "\u25bc slowest") == 2);
  CHECK(contains(ranks, "<title>rank 1, exchange: 21.41\u00a0ms</title>"));
  CHECK(contains(ranks,
                 "<th scope=\"row\">1</th><td><bdi>vm</bdi></td><td>54.909</td><td>29.432</td>"
                 "<td>14.50 GB</td><td>7.47 GB</td>"));
  CHECK(count(ranks, "\u2713 equal") == 2);
  CHECK(count(between(html, "<section id=\"memory\">", "</section>"), "class=\"planned\"") == 4);
  CHECK(contains(html, "slowest: rank 0"));
  CHECK(!contains(page::file_to_html(kOneRank), "id=\"ranks\""));
}

TEST_CASE("thousands of ranks share cells, and the table keeps the slowest and the wrong ones") {
  Json result = read_json_file(kManyRanks);
  Json& rows = result["ranks"]["rows"];
  const Json row = rows[0];
  for (std::size_t i = 2; i < 2000; ++i) {
    rows.push_back(row);
    rows.back()["rank"] = i;
  }
  rows[1000]["control"]["median_s"] = 9;
  rows[1500]["treatment"]["verified"]["wire"]["mismatches"] = 3;
  const std::string html = page_of(result);
  const std::string ranks = between(html, "<section id=\"ranks\">", "</section>");
  CHECK(contains(ranks, "<title>most of ranks 1000 to 1003, whole step: 9.000\u00a0s"));
  CHECK(count(ranks, "<tr>") < 80);
  CHECK(contains(ranks, "<th scope=\"row\">1000</th>"));
  CHECK(contains(ranks, "<th scope=\"row\">1500</th>"));
  CHECK(contains(html, "1 of 2000 ranks differ: 1500"));
  CHECK(html.size() - result.dump().size() < 2'000'000);
}

TEST_CASE("memory over time is a line of steps for each process and arm, and nothing where nobody counted") {
  Json result = read_json_file(kOneRank);
  const std::string none = between(page_of(result), "<section id=\"memory\">", "</section>");
  CHECK(!contains(none, "Over the time of a refit"));
  result["arms"]["control"]["memory_timeline"] = {
      {"trainer", {{0, 0}, {0.1, 1'000'000'000}, {0.3, 2'000'000'000}, {0.4, 0}}},
      {"generator", {{0, 500'000'000}, {0.4, 500'000'000}}}};
  result["arms"]["treatment"]["memory_timeline"] = nullptr;
  const std::string html = page_of(result);
  check_nesting(html);
  const std::string memory = between(html, "<section id=\"memory\">", "</section>");
  // A quarter and three quarters of the way; half the height and all of it.
  CHECK(contains(memory, "held-line control trainer\" d=\"M0 149.0H2500V79.5H7500V10.0H10000V149.0\""));
  CHECK(contains(memory, "held-line control generator\" d=\"M0 114.2H10000V114.2\""));
  CHECK(!contains(memory, "held-line treatment trainer\" d=\"M0 1"));
  CHECK(contains(memory, "trainer 2.00 GB, generator 500.00 MB"));
  Json odd = result;
  odd["arms"]["control"]["memory_timeline"]["trainer"][1] = {0.1};
  check_input_error([&] { (void)page_of(odd); }, "/arms/control/memory_timeline/trainer/1",
                    "seconds and bytes");
}

TEST_CASE("rounds are bars of packing, being under way and placing, a row a rank") {
  CHECK(!contains(page::file_to_html(kManyRanks), "id=\"rounds\""));
  Json result = read_json_file(kManyRanks);
  const Json rounds = {{{"pack_s", 0}, {"start_s", 0.1}, {"arrived_s", 0.5}, {"placed_s", 0.6}},
                       {{"pack_s", 0.1}, {"start_s", 0.2}, {"arrived_s", 0.8}, {"placed_s", 1}}};
  for (Json& row : result["ranks"]["rows"]) {
    row["control"]["timeline"] = {{"exchanging_s", 0.7}, {"hidden_s", 0.14}, {"rounds", rounds}};
  }
  result["ranks"]["rows"][0]["treatment"]["timeline"] = {
      {"exchanging_s", nullptr}, {"hidden_s", nullptr}, {"rounds", {rounds[0]}}};
  const std::string html = page_of(result);
  check_nesting(html);
  const std::string drawn = between(html, "<section id=\"rounds\">", "</section>");
  CHECK(count(drawn, "class=\"stretched\"") == 3);
  CHECK(count(drawn, "20\u00a0% hidden\"") == 2);
  CHECK(contains(drawn, "<path class=\"c0\" d=\"M0 1H1000V9H0ZM1000 1H2000V9H1000Z\"/>"));
  CHECK(contains(drawn, "<path class=\"c4\" d=\"M1000 10H5000V18H1000Z\"/>"));
  CHECK(contains(drawn, "<path class=\"c4\" d=\"M2000 19H8000V27H2000Z\"/>"));
  CHECK(contains(drawn, "<path class=\"c2\" d=\"M5000 28H6000V36H5000ZM8000 28H10000V36H8000Z\"/>"));
  CHECK(contains(drawn, "rank 0, 1 round\""));
  CHECK(contains(drawn, "both on one scale"));
}

TEST_CASE("of many ranks the rounds of the slowest are drawn, and of many rounds what can be seen") {
  Json result = read_json_file(kManyRanks);
  Json& rows = result["ranks"]["rows"];
  Json rounds = Json::array();
  for (int i = 0; i < 20'000; ++i) {
    const double at = 1e-5 * i;
    rounds.push_back(
        {{"pack_s", at}, {"start_s", at + 4e-6}, {"arrived_s", at + 8e-6}, {"placed_s", at + 1e-5}});
  }
  for (std::size_t i = 0; i < 64; ++i) {
    if (i >= rows.size()) rows.push_back(rows[0]);
    rows[i]["rank"] = i;
    rows[i]["control"]["median_s"] = i == 40 ? 9.0 : 1.0 + 0.01 * static_cast<double>(i % 8);
    rows[i]["control"]["timeline"] = {{"exchanging_s", 1}, {"hidden_s", 0}, {"rounds", rounds}};
  }
  result["ranks"]["straggler"]["control"] = 40;
  const std::string html = page_of(result);
  const std::string drawn = between(html, "<section id=\"rounds\">", "</section>");
  CHECK(count(drawn, "class=\"stretched\"") == 17);
  CHECK(contains(drawn, "\u25b6 rank 40"));
  CHECK(contains(drawn, "the 17 slowest of 64 ranks"));
  CHECK(drawn.size() < 2'000'000);
}

TEST_CASE("one simulated rank is said to be that before any number") {
  Json result = read_json_file(kManyRanks);
  result["ranks"]["simulated_rank"] = 1;
  result["ranks"]["rows"].erase(0);
  const std::string html = page_of(result);
  CHECK(contains(html, "<strong>only rank 1 of 2 ran.</strong>"));
  CHECK(html.find("<dt>Simulated</dt>") < html.find("id=\"headline\""));
}

TEST_CASE("a failed verification is the largest thing on the page, whatever the status says") {
  const std::string html = page_of(mismatched());
  check_nesting(html);
  CHECK(contains(html, "<div class=\"banner bad\""));
  CHECK(contains(html,
                 "<strong>Verification failed</strong><ul><li>treatment: <bdi>layout</bdi> differs, 12 "
                 "mismatches, first in <bdi>model.w13</bdi> at <bdi>7</bdi>"));
  CHECK(contains(between(html, "<section id=\"verification\">", "</section>"),
                 "\u2717 differs, 12 mismatches"));
  Json lying = Json::parse(report::to_json(mismatched()));
  lying["status"] = "ok";
  CHECK(contains(page_of(lying), "<div class=\"banner bad\""));
  // Sums that wrap around are no way out.
  lying["arms"]["treatment"]["verify"]["layout"]["mismatches"] = std::uint64_t{1} << 63;
  lying["arms"]["treatment"]["verify"]["wire"]["mismatches"] = std::uint64_t{1} << 63;
  CHECK(contains(page_of(lying), "<div class=\"banner bad\""));
  CHECK(contains(page::file_to_html(kOneRank), "<div class=\"banner good\""));
}

TEST_CASE("what was not verified, not run, refused or failed says so where a verdict would stand") {
  report::Report unverified = test::sample();
  unverified.result->treatment.verified_refits = 0;
  const std::string html = page_of(unverified);
  CHECK(contains(html, "<div class=\"banner warn\""));
  CHECK(contains(html, "No refit of treatment was compared"));

  const std::string dry = page_of(without_result(report::Status::dry_run, ""));
  CHECK(contains(dry, "<strong>Dry run</strong>"));
  CHECK(contains(dry, "<td>9.67</td>"));
  CHECK(!contains(dry, "id=\"bars\""));
  CHECK(!contains(dry, "<dt>Extrapolated</dt>"));
  CHECK(contains(dry, "<th scope=\"row\">bytes on the wire</th><td>600 B</td>"));

  report::Report refused = without_result(report::Status::refused, "expert width 1856 & no <multiple>");
  refused.replay.reset();
  const std::string no = page_of(refused);
  CHECK(contains(no, "<strong>Refused</strong><p>expert width 1856 &amp; no &lt;multiple&gt;</p>"));
  CHECK(!contains(no, "<dt>Published</dt>"));  // nobody knows
  CHECK(!contains(no, "id=\"setup\""));

  const std::string failed = page_of(without_result(report::Status::failed, "the generator is gone"));
  CHECK(contains(failed, "<div class=\"banner bad\""));
  CHECK(contains(failed, "<strong>Failed</strong><p>the generator is gone</p>"));
  for (const std::string& page : {html, dry, no, failed}) check_nesting(page);
}

TEST_CASE("strings of a result are text in the page, and never close the element that holds them all") {
  const std::string attack = "</script></title><script>alert(1)</script>\"'><!-- &amp; \xE2\x80\xAE\x1b[31m";
  Json result = read_json_file(kManyRanks);
  result["scenario"]["name"] = result["scenario"]["title"] = result["scenario"]["description"] = attack;
  result["scenario"]["notes"] = {attack};
  result["replayed"]["description"] = attack;
  result["environment"]["argv"] = {"refit-bench", attack};
  result["device"]["clocks_after"]["throttle_reasons"] = {attack};
  for (const char* arm : {"control", "treatment"}) {
    Json& part = result["arms"][arm];
    part["stages"][attack] = part["stages"]["pack"];
    part["phases"][attack + "/" + attack] = part["phases"]["generation"];
    part["phases"]["generation"]["published_source"] = attack;
    part["switches"][attack] = arm;
    part["verify"][attack] = {{"bytes", 1},
                              {"mismatches", 1},
                              {"findings",
                               {{{"tensor", attack},
                                 {"index", 7},
                                 {"expected", attack},
                                 {"got", attack},
                                 {"count", 1},
                                 {"what", attack}}}}};
    for (Json& row : result["ranks"]["rows"]) {
      row["host"] = attack;
      row[arm]["stages"][0]["name"] = attack;
    }
  }
  result["ranks"]["notes"] = {attack};
  result["ranks"]["exchange"] = result["ranks"]["train"] = result["ranks"]["gen"] = attack;
  const std::string html = page_of(result);
  check_nesting(html);
  CHECK(count(html, "<script") == 2);
  CHECK(count(html, "</script") == 2);
  CHECK(!contains(html, "<!--"));
  const std::size_t data = html.find("<script type=\"application/json\" id=\"result\">");
  CHECK(!contains(html.substr(0, data), "\xE2\x80\xAE"));
  CHECK(!contains(html, "\x1b"));
  // And the JSON comes back as it was.
  const std::string kept = between(html, "<script type=\"application/json\" id=\"result\">", "</script>");
  CHECK(Json::parse(kept) == result);
}

TEST_CASE("bytes that are no UTF-8 do not reach the page of a bench, and are refused in a file") {
  report::Report report = test::sample();
  report.scenario.title = "half \xC3";
  CHECK(contains(page_of(report), "half \uFFFD"));
  std::string text = report::to_json(test::sample());
  text.replace(text.find("A sample"), 8, "A \xC3(mple");
  check_input_error([&] { (void)to_html(text, "r.json"); }, "r.json", "line");
}

TEST_CASE("very long names are cut in pictures and can be broken everywhere else") {
  Json result = read_json_file(kManyRanks);
  std::string name;
  for (int i = 0; i < 20'000; ++i) name += "\u00fc";
  for (Json& row : result["ranks"]["rows"]) row["control"]["stages"][0]["name"] = name;
  const std::string html = page_of(result);
  check_nesting(html);
  CHECK(contains(html, "<div class=\"left\">" + name.substr(0, 44) + "\u2026</div>"));
  CHECK(contains(html, "overflow-wrap: anywhere"));
}

TEST_CASE("what is no refit-bench/1 is refused with file and key") {
  const auto refused = [](const std::string& text, const auto&... parts) {
    check_input_error([&] { (void)to_html(text, "r.json"); }, "r.json", parts...);
  };
  refused("", "line 1");
  refused("[]", "object");
  refused("{}", "/schema", "missing");
  refused(R"({"schema": "refit-bench/2"})", "/schema", "refit-bench/2");
  refused(R"({"schema": "refit-bench/1", "status": "fine"})", "/status", "fine");
  refused(R"({"schema": "refit-bench/1", "status": "ok", "scenario": {"name": "x"}})", "/arms", "missing");
  check_input_error([] { (void)page::file_to_html(kResults + "baselines/gate.json"); }, "gate.json",
                    "/schema");
  check_input_error([] { (void)page::file_to_html(kResults + "none.json"); }, "none.json");
  Json result = read_json_file(kOneRank);
  result["arms"]["control"]["phases"][test::kTransfer]["samples_s"][3] = "soon";
  refused(result.dump(),
          "/arms/control/phases/prepare_for_generation~1transfer_and_update_weights/samples_s/3");
}

TEST_CASE(
    "a result in which any value is missing or odd gives a page or a refusal, and no number that is none") {
  Json small = read_json_file(kManyRanks);
  small["arms"]["control"]["memory_timeline"] = {{"trainer", {{0, 0}, {0.5, 700}, {1, 0}}},
                                                 {"generator", {{0, 5}, {1, 5}}}};
  small["ranks"]["rows"][0]["control"]["timeline"] = {
      {"exchanging_s", 0.5},
      {"hidden_s", 0.25},
      {"rounds", {{{"pack_s", 0}, {"start_s", 0.1}, {"arrived_s", 0.5}, {"placed_s", 0.6}}}}};
  const Json flat = small.flatten();
  std::vector<Json::json_pointer> places;
  for (const auto& [pointer, value] : flat.items()) {
    const bool repeated =
        contains(pointer, "/rows/1") || contains(pointer, "samples") || contains(pointer, "seconds/");
    if (!repeated) places.emplace_back(pointer);
  }
  REQUIRE(places.size() > 300);
  const std::vector<Json> odd = {nullptr,       -1,
                                 1e308,         "text",
                                 Json::array(), Json::object(),
                                 5e-324,        std::uint64_t{18'446'744'073'709'551'615u},
                                 true};
  std::size_t pages = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    Json changed = small;
    changed[places[i]] = odd[i % odd.size()];
    CAPTURE(places[i].to_string(), changed[places[i]].dump());
    std::string html;
    try {
      html = page_of(changed);
      ++pages;
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      CHECK(std::string(error.what()).starts_with("r.json: "));
      continue;
    }
    check_numbers(html);
  }
  CHECK(pages > 50);
}

TEST_CASE("a verdict without a check or a compared refit is no verification") {
  Json result = Json::parse(read_json_text(kOneRank));
  CHECK(contains(page_of(result), "<strong>Verified</strong>"));
  result["arms"]["treatment"]["verified_refits"] = 0;
  CHECK(contains(page_of(result), "No refit of treatment was compared"));
  result["arms"]["treatment"]["verify"] = Json::object();
  check_input_error([&] { (void)page_of(result); }, "/arms/treatment/verify", "names no check");
}

TEST_CASE("more stages than any program has are refused, and lines of very many steps are short") {
  Json result = Json::parse(read_json_text(kOneRank));
  Json& stages = result["arms"]["control"]["stages"];
  for (int i = 0; i < 10'001; ++i) stages[std::to_string(i)] = stages["wait"];
  check_input_error([&] { (void)page_of(result); }, "/arms/control/stages", "at most 10000");
  result = Json::parse(read_json_text(kManyRanks));
  const Json stage = result["ranks"]["rows"][0]["control"]["stages"][0];
  for (int i = 0; i < 300; ++i) {
    result["ranks"]["rows"][0]["control"]["stages"].push_back(stage);
    result["ranks"]["rows"][0]["control"]["stages"].back()["name"] = "s" + std::to_string(i);
  }
  check_input_error([&] { (void)page_of(result); }, "/ranks/rows", "at most 256");
  result = Json::parse(read_json_text(kOneRank));
  Json steps = Json::array();
  for (std::uint64_t i = 0; i < 200'000; ++i)
    steps.push_back({static_cast<double>(i) * 1e-6, i % 2 == 0 ? 7 : ~std::uint64_t{0}});
  result["arms"]["control"]["memory_timeline"] = {{"trainer", steps}, {"generator", Json::array()}};
  const std::string line = between(page_of(result), "held-line control trainer\"", "/>");
  CHECK(line.size() > 10'000);
  CHECK(line.size() < 400'000);
}
