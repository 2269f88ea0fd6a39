// The names of faults and modes, and a report as text and as JUnit XML.
#include "refit/audit/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "audit/elements.hpp"
#include "base/junit.hpp"
#include "refit/base/printable.hpp"

namespace refit::audit {
namespace {

/// One clause after the tensor's name.
std::string clause(const Finding& finding) {
  switch (finding.fault) {
    case Fault::bytes:
      break;
    case Fault::dtype:
      return fmt::format("is {}, expected {}", finding.got, finding.expected);
    case Fault::shape:
      return fmt::format("has shape {}, expected {}", finding.got, finding.expected);
    case Fault::missing:
      return fmt::format("is missing, expected {}", finding.expected);
    case Fault::extra:
      return fmt::format("is {}, expected {}", finding.got, finding.expected);
  }
  std::string text =
      fmt::format("{} of {} elements differ, the first at {} is {}, expected {}", finding.count, finding.of,
                  index_text(finding.index), finding.got, finding.expected);
  if (finding.max_ulp) text += fmt::format("; largest distance {} ULP", *finding.max_ulp);
  return text;
}

/// Without the end of the last line.
std::string lines_of(const Finding& finding) {
  std::string text = fmt::format("{}: {}", printable(finding.tensor), clause(finding));
  if (finding.diagnosis) text += fmt::format("\n  diagnosis: {}", finding.diagnosis->sentence);
  return text;
}

std::string sqnr_text(const QuantizedTensor& tensor) {
  if (!tensor.max_abs_error) return "-";
  if (tensor.sqnr_db) return fmt::format("{:.2f}", *tensor.sqnr_db);
  return *tensor.max_abs_error == 0 ? "exact" : "-inf";  // errors without a signal
}

/// What the statistics leave out, or nothing.
std::string non_finite_line(const QuantizedTensor& tensor) {
  if (tensor.non_finite == 0) return "";
  const std::uint64_t in_source = tensor.nan + tensor.infinite;
  std::string text =
      fmt::format("    not finite: {} NaN and {} infinite in SRC", tensor.nan, tensor.infinite);
  if (tensor.non_finite > in_source) {
    text += fmt::format(", {} more NaN in DST alone", tensor.non_finite - in_source);
  }
  text += tensor.finite() == 0 ? "; no finite element\n"
                               : fmt::format("; errors are those of the other {}\n", tensor.finite());
  return text;
}

std::string quantized_lines(const Report::Quantized& quantized) {
  std::string text = fmt::format("{:>11} {:>11} {:>8} {:>9} {:>9} {:>9}  tensor\n", "max error", "RMS error",
                                 "SQNR dB", "byte 0", "byte 1", "saturated");
  for (const QuantizedTensor& tensor : quantized.tensors) {
    const auto share = [&](std::uint64_t blocks) {
      return tensor.blocks == 0 ? 0.0
                                : 100.0 * static_cast<double>(blocks) / static_cast<double>(tensor.blocks);
    };
    const auto number = [](std::optional<double> value) {
      return value ? fmt::format("{:.4g}", *value) : std::string("-");
    };
    text += fmt::format("{:>11} {:>11} {:>8} {:>8.3f}% {:>8.3f}% {:>9}  {}\n", number(tensor.max_abs_error),
                        number(tensor.rms_error), sqnr_text(tensor), share(tensor.blocks_at_0),
                        share(tensor.blocks_at_1), tensor.saturated, printable(tensor.name));
    text += non_finite_line(tensor);
    if (tensor.modes == quantized.modes) continue;
    for (std::size_t i = 0; i < kModes; ++i) {
      if (tensor.modes[i]) text += fmt::format("    reproduced by {}\n", words(mode(i)));
    }
  }
  for (std::size_t i = 0; i < kModes; ++i) {
    if (quantized.modes[i]) text += fmt::format("every byte is reproduced by {}\n", words(mode(i)));
  }
  if (std::find(quantized.modes.begin(), quantized.modes.end(), true) == quantized.modes.end()) {
    text += "no mode reproduces every byte\n";
  }
  return text;
}

}  // namespace

std::string_view name_of(Fault fault) noexcept {
  switch (fault) {
    case Fault::bytes:
      return "bytes";
    case Fault::dtype:
      return "dtype";
    case Fault::shape:
      return "shape";
    case Fault::missing:
      return "missing";
    case Fault::extra:
      return "extra";
  }
  return "";
}

Mode mode(std::size_t number) noexcept {
  return {.rounding = quant::kRoundings[number / 2],
          .zero_scale = number % 2 == 0 ? quant::ZeroScale::keep : quant::ZeroScale::one};
}

std::string words(const Mode& mode) {
  return fmt::format("{}, zero scale {}", quant::name_of(mode.rounding),
                     mode.zero_scale == quant::ZeroScale::one ? "one" : "keep");
}

std::string to_text(const Report& report, std::size_t max_report) {
  std::string text;
  for (const std::string& note : report.notes) text += printable(note) + "\n";
  if (report.quantized) text += quantized_lines(*report.quantized);
  const std::size_t shown = std::min(max_report, report.findings.size());
  for (std::size_t i = 0; i < shown; ++i) text += lines_of(report.findings[i]) + "\n";
  if (shown < report.findings.size()) {
    text += fmt::format("and {} more tensors\n", report.findings.size() - shown);
  }
  const std::size_t listed = std::min(max_report, report.not_judged.size());
  for (std::size_t i = 0; i < listed; ++i)
    text += fmt::format("not judged: {}\n", printable(report.not_judged[i]));
  if (listed < report.not_judged.size()) {
    text += fmt::format("and {} more that were not judged\n", report.not_judged.size() - listed);
  }
  const std::size_t wrong = report.findings.size();
  text += fmt::format("{} tensors, {} bytes: ", report.judged.size(), report.bytes);
  text +=
      wrong == 0 ? "every byte equal\n" : fmt::format("{} {}\n", wrong, wrong == 1 ? "differs" : "differ");
  return text;
}

std::string to_junit(const Report& report) {
  std::unordered_map<std::string_view, const Finding*> failed;
  for (const Finding& finding : report.findings) failed.emplace(finding.tensor, &finding);
  const std::string group = "refit-verify." + report.command;
  std::vector<JunitCase> cases;
  for (const std::string& name : report.judged) {
    JunitCase& one = cases.emplace_back(JunitCase{.group = group, .name = name});
    const auto found = failed.find(name);
    if (found == failed.end()) continue;
    one.outcome = JunitCase::Outcome::failed;
    one.type = name_of(found->second->fault);
    one.message = lines_of(*found->second);
  }
  for (const std::string& name : report.not_judged) {
    cases.push_back({group, name, JunitCase::Outcome::skipped, "", "not judged"});
  }
  return junit_xml("refit-verify " + report.command, cases);
}

}  // namespace refit::audit
