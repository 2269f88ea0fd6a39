// JUnit XML, as build servers read it: one suite of cases.
#pragma once

#include <string>
#include <vector>

namespace refit {

struct JunitCase {
  std::string group, name;  ///< "classname" and name
  enum class Outcome { passed, failed, skipped } outcome = Outcome::passed;
  std::string type{}, message{};  ///< of a failure; of a skipped case the message alone
};

/// A whole document. Text is made printable (refit/base/printable.hpp) where it is a name, and escaped
/// everywhere.
[[nodiscard]] std::string junit_xml(const std::string& suite, const std::vector<JunitCase>& cases);

}  // namespace refit
