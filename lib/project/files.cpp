#include "project/files.hpp"

#include <fmt/format.h>

#include <array>
#include <set>

#include "base/nearest.hpp"
#include "refit/base/error.hpp"
#include "refit/base/printable.hpp"
#include "refit/scenario/scenario.hpp"

namespace refit::project {
namespace {

namespace fs = std::filesystem;

/// In the order of the enumeration.
constexpr std::array<std::string_view, 5> kBases{"measured", "datasheet", "published", "fitted", "assumed"};

Basis read_basis(const JsonNode& node) {
  const std::string text = node.text();
  for (std::size_t i = 0; i < kBases.size(); ++i) {
    if (kBases[i] == text) return static_cast<Basis>(i);
  }
  node.fail(fmt::format("is {}; it has to be measured, datasheet, published, fitted or assumed",
                        json_quoted(text)));
}

/// Of a node whose other keys the caller has checked.
Figure read_figure_of(const JsonNode& node, double unit, bool may_be_zero) {
  Figure figure;
  const JsonNode value = node.at("value");
  figure.value = value.number() * unit;
  if (figure.value == 0 && !may_be_zero) value.fail("has to be above 0");
  figure.basis = read_basis(node.at("basis"));
  const JsonNode source = node.at("source");
  figure.source = printable(source.text());
  if (figure.source.empty()) source.fail("is empty; a figure needs a source");
  return figure;
}

}  // namespace

std::string_view name_of(Basis basis) noexcept {
  return kBases[static_cast<std::size_t>(basis)];
}

fs::path find_file(const std::string& name_or_file, std::string_view folder, std::string_view what) {
  if (name_or_file.find('/') != std::string::npos || name_or_file.ends_with(".json")) return name_or_file;
  for (const fs::path& directory : scenario::directories()) {
    const fs::path file = directory / folder / (name_or_file + ".json");
    std::error_code ignored;
    if (!name_or_file.empty() && fs::exists(file, ignored)) return file;
  }
  const std::vector<std::string> names = names_in(folder);
  const std::vector<std::string_view> known(names.begin(), names.end());
  const auto meant = nearest(name_or_file, known);
  fail_input(fmt::format("there is no {} {}{}", what, json_quoted(name_or_file),
                         meant           ? fmt::format("; did you mean \"{}\"?", *meant)
                         : names.empty() ? fmt::format("; no folder '{}' was found", folder)
                                         : ""));
}

std::vector<std::string> names_in(std::string_view folder) {
  std::set<std::string> names;
  for (const fs::path& directory : scenario::directories()) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(directory / folder, ignored)) {
      if (entry.path().extension() == ".json") names.insert(entry.path().stem().string());
    }
  }
  return {names.begin(), names.end()};
}

Head read_head(const JsonNode& node, std::string_view schema, const fs::path& file) {
  if (node.at("schema").text() != schema) node.at("schema").fail(fmt::format("is not {}", schema));
  Head head{printable(node.at("name").text()), printable(node.at("title").text())};
  if (head.name != file.stem().string()) node.at("name").fail("is not the file's name");
  return head;
}

Figure read_figure(const JsonNode& node, double unit) {
  node.require_known({"value", "basis", "source"});
  return read_figure_of(node, unit, false);
}

Fitted read_fitted(const JsonNode& node, bool may_be_zero) {
  node.require_known({"value", "basis", "source", "prior", "spread"});
  Fitted fitted;
  fitted.figure = read_figure_of(node, 1, may_be_zero);
  constexpr double kMost = 1e6, kLeastPrior = 1e-12;
  if (fitted.figure.value > kMost) node.at("value").fail(fmt::format("is above {}", kMost));
  const auto prior = node.find("prior"), spread = node.find("spread");
  if (prior.has_value() != spread.has_value()) node.fail("has one of prior and spread, and needs both");
  if (prior) {
    fitted.prior = prior->number();
    fitted.spread = spread->number();
    if (*fitted.prior < kLeastPrior || *fitted.prior > kMost) {
      prior->fail(fmt::format("has to be from {} to {}", kLeastPrior, kMost));
    }
    if (fitted.spread <= 0 || fitted.spread > 10) spread->fail("has to be above 0 and at most 10");
  }
  return fitted;
}

}  // namespace refit::project
