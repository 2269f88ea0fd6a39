// What has to be known to do it again.
#include <fmt/format.h>

#include <algorithm>

#include "page/html.hpp"
#include "page/sections.hpp"
#include "page/units.hpp"
#include "refit/base/bytes.hpp"

namespace refit::page {
namespace {

/// Any value as one line.
std::string in_words(const JsonNode& node) {
  const Json& json = node.json();
  if (json.is_string()) return text(node.text());
  if (json.is_boolean()) return json.get<bool>() ? "yes" : "no";
  if (json.is_array()) {
    std::string list;
    for (const JsonNode& element : node.elements()) list += (list.empty() ? "" : ", ") + in_words(element);
    return list.empty() ? "none" : list;
  }
  return text(json_shown(json));
}

/// Terms and what is known of them.
class Facts {
 public:
  explicit Facts(const JsonNode& root) : root_(root) {}

  void add(const char* term, const std::string& html) {
    if (!html.empty()) html_ += entry(term, html);
  }
  void word_at(const char* term, const std::vector<std::string>& path) {
    if (const auto node = find(root_, path)) add(term, in_words(*node));
  }
  void bytes_at(const char* term, const std::vector<std::string>& path) {
    if (const auto node = find(root_, path)) add(term, format_bytes(node->count()));
  }
  void rate_at(const char* term, const std::vector<std::string>& path) {
    const auto node = find(root_, path);
    if (node) add(term, fmt::format("{:.4g}\u00a0GB/s", node->number() / 1e9));
  }
  [[nodiscard]] std::string html(const char* heading) const {
    return html_.empty()
               ? ""
               : fmt::format("<div><h3>{}</h3><dl class=\"facts\">\n{}</dl></div>\n", heading, html_);
  }

 private:
  const JsonNode& root_;
  std::string html_;
};

bool has(const std::vector<std::string>& list, const std::string& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

std::string switch_table(const Result& result) {
  const Arm &control = result.arms[0], &treatment = result.arms[1];
  const auto shown = [](const Arm& arm, const std::string& name, const std::string& value) {
    return has(arm.inapplicable, name)
               ? fmt::format("<span class=\"unused\">{} (not used)</span>", text(value))
               : text(value);
  };
  std::vector<TableRow> rows;
  for (const auto& [name, value] : control.switches) {
    const auto other = std::find_if(treatment.switches.begin(), treatment.switches.end(),
                                    [&key = name](const auto& entry) { return entry.first == key; });
    if (other == treatment.switches.end() || other->second == value) continue;
    if (has(control.inapplicable, name) && has(treatment.inapplicable, name)) continue;
    rows.push_back(
        {page::name(name), {shown(control, name, value), shown(treatment, name, other->second)}, "text"});
  }
  if (rows.empty()) return "<p>Both arms do the same.</p>\n";
  return table("switches", "<tr><th>switch</th><th>control</th><th>treatment</th></tr>", rows);
}

std::string traffic_table(const Result& result) {
  const Arm &a = result.arms[0], &b = result.arms[1];
  std::vector<TableRow> rows;
  const auto add = [&](const char* what, std::uint64_t Arm::*member, std::string (*text)(std::uint64_t)) {
    rows.push_back({what, {text(a.*member), text(b.*member)}, ""});
  };
  const bool ranks = find(result.root, {"scenario", "ranks"}).has_value();
  add(ranks ? "bytes between ranks" : "bytes on the wire", &Arm::wire_bytes, bytes_or_none);
  add(ranks ? "rounds" : "buckets", &Arm::buckets, grouped);
  if (result.measured()) {
    add("messages", &Arm::messages, grouped);
    add("bytes of messages", &Arm::message_bytes, bytes_or_none);
    add("handles opened", &Arm::handles_opened, grouped);
  }
  return table("traffic", "<tr><th>one refit</th><th>control</th><th>treatment</th></tr>", rows);
}

std::string clocks(const JsonNode& root, const char* when) {
  const auto node = find(root, {"device", when});
  if (!node) return "";
  std::string html;
  const auto add = [&](const char* key, double factor, const char* unit) {
    const auto value = node->find(key);
    if (!value) return;
    html += fmt::format("{}{:.4g}\u00a0{}", html.empty() ? "" : ", ", read_number(*value) * factor, unit);
  };
  add("sm_mhz", 1, "MHz");
  add("memory_mhz", 1, "MHz memory");
  add("temperature_c", 1, "\u00b0C");
  add("power_mw", 1e-3, "W");
  const auto reasons = node->find("throttle_reasons");
  if (reasons && !reasons->elements().empty()) {
    html += fmt::format("; <strong class=\"held\">! held down by {}</strong>", in_words(*reasons));
  }
  return html;
}

std::string machine_facts(const Result& result) {
  Facts facts(result.root);
  facts.word_at("GPU", {"device", "name"});
  facts.word_at("compute capability", {"device", "compute_capability"});
  facts.bytes_at("GPU memory", {"device", "memory_bytes"});
  facts.word_at("driver", {"device", "driver"});
  facts.word_at("CUDA runtime", {"device", "runtime"});
  facts.add("clocks before", clocks(result.root, "clocks_before"));
  facts.add("clocks after", clocks(result.root, "clocks_after"));
  facts.rate_at("copies, read + written", {"copy_bandwidth", "bytes_per_second"});
  facts.rate_at("to pinned host memory", {"copy_bandwidth", "to_host_bytes_per_second"});
  facts.rate_at("from pinned host memory", {"copy_bandwidth", "from_host_bytes_per_second"});
  facts.rate_at("to another GPU", {"copy_bandwidth", "peer_bytes_per_second"});
  facts.word_at("CPU", {"environment", "cpu_model"});
  facts.word_at("CPUs usable", {"environment", "usable_cpus"});
  facts.bytes_at("memory", {"environment", "memory_total_bytes"});
  facts.word_at("kernel", {"environment", "kernel"});
  return facts.html("Machine");
}

std::string command_line(const JsonNode& root) {
  const auto argv = find(root, {"environment", "argv"});
  if (!argv) return "";
  std::string line;
  for (const JsonNode& argument : argv->elements()) {
    const std::string word = argument.text();
    const bool plain = !word.empty() && word.find_first_of(" \t\n\"'\\$`*?&;|<>(){}#~!") == word.npos;
    line += (line.empty() ? "" : " ") + (plain ? word : json_quoted(word));
  }
  return "<code>" + text(line) + "</code>";
}

std::string program_facts(const Result& result) {
  Facts facts(result.root);
  facts.word_at("refit", {"environment", "version"});
  std::string commit;
  if (const auto node = find(result.root, {"environment", "git_commit"})) {
    const auto dirty = find(result.root, {"environment", "git_dirty"});
    commit =
        "<code>" + shortened(node->text(), 12) + "</code>" + (dirty && dirty->flag() ? " with changes" : "");
  }
  facts.add("commit", commit);
  facts.word_at("compiler", {"environment", "compiler"});
  facts.word_at("build", {"environment", "build_type"});
  facts.word_at("date, UTC", {"environment", "date_utc"});
  facts.add("scenario digest", result.digest.empty() ? "" : "<code>" + text(result.digest) + "</code>");
  facts.add("command", command_line(result.root));
  return facts.html("Program");
}

std::string settings_facts(const Result& result) {
  Facts facts(result.root);
  for (const char* key : {"backend", "transport", "threads", "recipe", "ignore", "moe_layout", "steps",
                          "warmup", "seed", "verify", "checkpoint"}) {
    facts.word_at(key, {"settings", key});
  }
  facts.word_at("measured steps", {"run", "measured_steps"});
  facts.word_at("stopped early", {"run", "stopped_early"});
  if (const auto seconds = find(result.root, {"run", "seconds"}))
    facts.add("took", duration(read_number(*seconds)));
  return facts.html("Settings");
}

std::string model_facts(const Result& result) {
  Facts facts(result.root);
  facts.word_at("architecture", {"model", "architecture"});
  for (const char* key : {"layers", "experts", "tensors", "parameters"}) {
    if (const auto node = find(result.root, {"model", key})) facts.add(key, grouped(node->count()));
  }
  facts.bytes_at("bytes", {"model", "bytes"});
  if (!result.replayed.empty() && result.fraction < 1) {
    facts.add("replayed here", fmt::format("{:.3g}\u00a0%", 100 * result.fraction));
  }
  return facts.html("Model");
}

}  // namespace

std::string setup_section(const Result& result) {
  return result.arms.empty()
             ? ""
             : section("setup", "What the arms do differently", switch_table(result) + traffic_table(result));
}

std::string environment_section(const Result& result, const std::string& note) {
  return section("environment", "Environment",
                 paragraph(note) + "<div class=\"columns\">\n" + machine_facts(result) +
                     program_facts(result) + settings_facts(result) + model_facts(result) + "</div>\n");
}

}  // namespace refit::page
