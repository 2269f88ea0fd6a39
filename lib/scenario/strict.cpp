// Reading a JSON object whose keys are all known: every complaint names the file and the JSON pointer.
#include "scenario/strict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json_node.hpp"
#include "refit/base/error.hpp"

namespace refit::scenario {

StrictObject::StrictObject(const Json& value, std::string place, std::string pointer,
                           std::vector<std::string_view> known)
    : value_(&value), place_(std::move(place)), pointer_(std::move(pointer)) {
  if (!value.is_object()) fail_at(pointer_, fmt::format("has to be an object, not {}", json_shown(value)));
  for (const auto& [key, member] : value.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    fail(key, unknown_key(key, known));
  }
}

std::string StrictObject::pointer_to(std::string_view key) const {
  return pointer_ + "/" + json_pointer_escaped(key);
}

void StrictObject::fail_at(const std::string& pointer, const std::string& reason) const {
  const std::string quoted = json_quoted(pointer);  // a key may hold control characters
  fail_input(fmt::format("{}: {} {}", place_,
                         pointer.empty() ? "the whole file" : quoted.substr(1, quoted.size() - 2), reason));
}

void StrictObject::fail(std::string_view key, const std::string& reason) const {
  fail_at(pointer_to(key), reason);
}

void StrictObject::fail_type(std::string_view key, std::string_view wanted, const Json& got) const {
  fail(key, fmt::format("has to be {}, not {}", wanted, json_shown(got)));
}

const Json* StrictObject::find(std::string_view key) const {
  const auto member = value_->find(std::string(key));
  return member == value_->end() || member->is_null() ? nullptr : &*member;
}

std::optional<std::string> StrictObject::text(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail_type(key, "a string", *value);
  return value->get<std::string>();
}

std::string StrictObject::required_text(std::string_view key) const {
  const auto value = text(key);
  if (!value || value->empty()) fail(key, "is required: a string that is not empty");
  return *value;
}

std::vector<std::string> StrictObject::texts(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) fail_type(key, "an array of strings", *value);
  std::vector<std::string> texts;
  for (const Json& element : *value) {
    if (!element.is_string() || element.get_ref<const std::string&>().empty()) {
      fail_at(fmt::format("{}/{}", pointer_to(key), texts.size()),
              fmt::format("has to be a string that is not empty, not {}", json_shown(element)));
    }
    texts.push_back(element.get<std::string>());
  }
  return texts;
}

std::optional<std::uint64_t> StrictObject::count(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned()) fail_type(key, "a whole number that is not negative", *value);
  const auto number = value->get<std::uint64_t>();
  if (number > std::uint64_t{1} << 62) fail_type(key, "at most 2^62", *value);
  return number;
}

std::optional<bool> StrictObject::flag(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail_type(key, "true or false", *value);
  return value->get<bool>();
}

std::optional<double> StrictObject::seconds(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) fail_type(key, "a number of seconds", *value);
  const auto number = value->get<double>();
  if (!std::isfinite(number) || number < 0)
    fail_type(key, "a number of seconds that is not negative", *value);
  return number;
}

std::optional<StrictObject> StrictObject::object(std::string_view key,
                                                 std::vector<std::string_view> known) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return StrictObject(*value, place_, pointer_to(key), std::move(known));
}

std::vector<std::string> StrictObject::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, member] : value_->items()) keys.push_back(key);
  return keys;
}

}  // namespace refit::scenario
