// A value of a JSON file that knows where it stands, so that every complaint names the file and the pointer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.hpp"

namespace refit {

/// RFC 6901: '~' and '/' inside a key are written ~0 and ~1.
[[nodiscard]] std::string json_pointer_escaped(std::string_view key);
/// A value as it stands in the file, shortened, for messages.
[[nodiscard]] std::string json_shown(const Json& value);
/// What is wrong with a key that is not among `known`, with the one that was probably meant.
[[nodiscard]] std::string unknown_key(std::string_view key, const std::vector<std::string_view>& known);

/// Refers to the parsed file, which has to outlive it. Null counts as absent.
class JsonNode {
 public:
  JsonNode(const Json& root, const std::string& file)
      : value_(&root), file_(std::make_shared<const std::string>(file)) {}

  [[nodiscard]] const Json& json() const noexcept { return *value_; }
  [[nodiscard]] bool is_object() const noexcept { return value_->is_object(); }

  /// The member, or nothing when it is absent, null, or this is no object.
  [[nodiscard]] std::optional<JsonNode> find(std::string_view key) const;
  /// Error(input) when there is none.
  [[nodiscard]] JsonNode at(std::string_view key) const;
  /// Of an object, in the order of the alphabet, and of an array; Error(input) for anything else.
  [[nodiscard]] std::vector<std::pair<std::string, JsonNode>> members() const;
  [[nodiscard]] std::vector<JsonNode> elements() const;

  /// Error(input) unless this is an object with none but these keys.
  void require_known(const std::vector<std::string_view>& known) const;

  // Error(input) for a value of another kind.
  [[nodiscard]] std::string text() const;
  /// Finite and not negative.
  [[nodiscard]] double number() const;
  [[nodiscard]] std::uint64_t count() const;
  [[nodiscard]] bool flag() const;
  [[nodiscard]] std::vector<double> numbers() const;

  /// Throws Error(input): file, pointer, reason.
  [[noreturn]] void fail(const std::string& reason) const;

 private:
  [[nodiscard]] JsonNode child(const Json& value, const std::string& step) const;
  [[noreturn]] void fail_kind(std::string_view wanted) const;
  const Json* value_;
  std::shared_ptr<const std::string> file_;
  std::string pointer_;
};

}  // namespace refit
