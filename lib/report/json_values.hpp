// How single values look in the report's JSON: what is not known is null.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/json.hpp"

namespace refit::report {

inline OrderedJson number(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

template <class Value>
OrderedJson optional(const std::optional<Value>& value) {
  if constexpr (std::is_same_v<Value, double>) return value ? number(*value) : OrderedJson(nullptr);
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

/// Empty text means that it is not known.
inline OrderedJson known(const std::string& text) {
  return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
}

inline OrderedJson numbers(const std::vector<double>& values) {
  OrderedJson array = OrderedJson::array();
  for (const double value : values) array.push_back(number(value));
  return array;
}

}  // namespace refit::report
