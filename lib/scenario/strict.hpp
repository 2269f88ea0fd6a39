// Reading a JSON object whose keys are all known: every complaint names the file and the JSON pointer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"

namespace refit::scenario {

/// One object of a file, with the keys it may have. Values are asked for by key; null counts as absent.
class StrictObject {
 public:
  /// Error(input) when `value` is not an object or has a key that is not among `known`.
  StrictObject(const Json& value, std::string place, std::string pointer,
               std::vector<std::string_view> known);

  /// The member, or nothing when it is absent or null.
  [[nodiscard]] const Json* find(std::string_view key) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;
  [[nodiscard]] std::string required_text(std::string_view key) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const;
  /// Whole and not negative; Error(input) above 2^62.
  [[nodiscard]] std::optional<std::uint64_t> count(std::string_view key) const;
  [[nodiscard]] std::optional<bool> flag(std::string_view key) const;
  /// Finite and not negative.
  [[nodiscard]] std::optional<double> seconds(std::string_view key) const;
  /// The object under `key`, when there is one.
  [[nodiscard]] std::optional<StrictObject> object(std::string_view key,
                                                   std::vector<std::string_view> known) const;
  /// Keys in the file's alphabetical order.
  [[nodiscard]] std::vector<std::string> keys() const;

  /// Throws Error(input): place, pointer of `key`, reason.
  [[noreturn]] void fail(std::string_view key, const std::string& reason) const;

 private:
  [[nodiscard]] std::string pointer_to(std::string_view key) const;
  [[noreturn]] void fail_at(const std::string& pointer, const std::string& reason) const;
  [[noreturn]] void fail_type(std::string_view key, std::string_view wanted, const Json& got) const;
  const Json* value_;
  std::string place_, pointer_;
};

}  // namespace refit::scenario
