// Looking up, converting, complaining.
#include "base/json_node.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/nearest.hpp"
#include "refit/base/error.hpp"

namespace refit {

std::string json_pointer_escaped(std::string_view key) {
  std::string text;
  for (const char c : key) {
    if (c == '~') {
      text += "~0";
    } else if (c == '/') {
      text += "~1";
    } else {
      text += c;
    }
  }
  return text;
}

std::string json_shown(const Json& value) {
  if (value.is_string()) return json_quoted(value.get_ref<const std::string&>());
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  return value.dump();
}

std::string unknown_key(std::string_view key, const std::vector<std::string_view>& known) {
  const auto meant = nearest(key, known);
  return meant ? fmt::format("is not a known key; did you mean \"{}\"?", *meant)
               : fmt::format("is not a known key; known here: {}", fmt::join(known, ", "));
}

JsonNode JsonNode::child(const Json& value, const std::string& step) const {
  JsonNode node = *this;
  node.value_ = &value;
  node.pointer_ += "/" + step;
  return node;
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  if (!value_->is_object()) return std::nullopt;
  const auto member = value_->find(std::string(key));
  if (member == value_->end() || member->is_null()) return std::nullopt;
  return child(*member, json_pointer_escaped(key));
}

JsonNode JsonNode::at(std::string_view key) const {
  if (!value_->is_object()) fail_kind("an object");
  auto member = find(key);
  if (!member) child(*value_, json_pointer_escaped(key)).fail("is missing");
  return *std::move(member);
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members() const {
  if (!value_->is_object()) fail_kind("an object");
  std::vector<std::pair<std::string, JsonNode>> members;
  for (const auto& [key, value] : value_->items()) {
    members.emplace_back(key, child(value, json_pointer_escaped(key)));
  }
  return members;
}

std::vector<JsonNode> JsonNode::elements() const {
  if (!value_->is_array()) fail_kind("an array");
  std::vector<JsonNode> elements;
  elements.reserve(value_->size());
  for (const Json& value : *value_) elements.push_back(child(value, std::to_string(elements.size())));
  return elements;
}

void JsonNode::require_known(const std::vector<std::string_view>& known) const {
  if (!value_->is_object()) fail_kind("an object");
  for (const auto& [key, value] : value_->items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      child(value, json_pointer_escaped(key)).fail(unknown_key(key, known));
    }
  }
}

std::string JsonNode::text() const {
  if (!value_->is_string()) fail_kind("a string");
  return value_->get<std::string>();
}

double JsonNode::number() const {
  if (!value_->is_number()) fail_kind("a number");
  const auto number = value_->get<double>();
  if (!std::isfinite(number) || number < 0) fail_kind("a finite number that is not negative");
  return number;
}

std::uint64_t JsonNode::count() const {
  if (!value_->is_number_unsigned()) fail_kind("a whole number that is not negative");
  return value_->get<std::uint64_t>();
}

bool JsonNode::flag() const {
  if (!value_->is_boolean()) fail_kind("true or false");
  return value_->get<bool>();
}

std::vector<double> JsonNode::numbers() const {
  if (!value_->is_array()) fail_kind("an array");
  std::vector<double> numbers;
  numbers.reserve(value_->size());
  for (const Json& value : *value_) {
    const double number = value.is_number() ? value.get<double>() : -1;
    // A node of its own, which knows where it stands, costs more than the number: only for the one to name.
    const bool good = std::isfinite(number) && number >= 0;
    numbers.push_back(good ? number : child(value, std::to_string(numbers.size())).number());
  }
  return numbers;
}

void JsonNode::fail(const std::string& reason) const {
  const std::string quoted = json_quoted(pointer_);  // a key may hold control characters
  fail_input(fmt::format("{}: {} {}", *file_,
                         pointer_.empty() ? "the whole file" : quoted.substr(1, quoted.size() - 2), reason));
}

void JsonNode::fail_kind(std::string_view wanted) const {
  fail(fmt::format("has to be {}, not {}", wanted, json_shown(*value_)));
}

}  // namespace refit
