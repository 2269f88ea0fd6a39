// Which colour and pattern a stage has: the same wherever it is drawn, and never colour alone.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace refit::page {

/// Classes of style.cpp by the names of stages and phases. What is not known by name gets dotted colours in
/// the order given.
class Looks {
 public:
  explicit Looks(const std::vector<std::string>& names);
  [[nodiscard]] const std::string& of(const std::string& name) const { return classes_.at(name); }

 private:
  std::map<std::string, std::string> classes_;
};

/// The patterns that the classes refer to: once in a page, before its pictures.
[[nodiscard]] std::string pattern_definitions();

}  // namespace refit::page
