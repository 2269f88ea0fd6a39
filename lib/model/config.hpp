// Reads fields of a Hugging Face config.json: null means "not given", everything else is checked and named.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "refit/tensor/dtype.hpp"

namespace refit::model {

/// Far above any published model, and low enough that no size, sum or product computed from fields within
/// them leaves 64 bits and no inventory takes more than some hundred megabytes: they are checked before
/// anything is allocated.
namespace limits {
inline constexpr std::uint64_t layers = 1024;
inline constexpr std::uint64_t experts = 1 << 13;      ///< of one layer
inline constexpr std::uint64_t all_experts = 1 << 18;  ///< of all layers together
inline constexpr std::uint64_t width = 1 << 20;        ///< hidden, intermediate and low-rank sizes
inline constexpr std::uint64_t vocab = 1 << 24;
inline constexpr std::uint64_t heads = 1 << 12;
inline constexpr std::uint64_t head_dim = 1 << 14;
inline constexpr std::uint64_t few = 16;  ///< shared experts, multi-token-prediction layers
}  // namespace limits

/// One JSON object of a configuration. It refers to the parsed document, which has to outlive it.
class Config {
 public:
  /// `path` is put before field names in messages: "" or "text_config.".
  Config(const Json& object, std::string place, std::string path = {});

  [[nodiscard]] bool has(std::string_view field) const;

  /// A whole number from `least` to `most`; required, or nothing when it is not given.
  [[nodiscard]] std::uint64_t number(std::string_view field, std::uint64_t most,
                                     std::uint64_t least = 1) const;
  [[nodiscard]] std::optional<std::uint64_t> optional_number(std::string_view field, std::uint64_t most,
                                                             std::uint64_t least = 1) const;
  [[nodiscard]] bool flag(std::string_view field, bool otherwise) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view field) const;
  /// Empty when it is not given; these two refuse elements of another type.
  [[nodiscard]] std::vector<std::string> texts(std::string_view field) const;
  [[nodiscard]] std::vector<std::uint64_t> numbers(std::string_view field, std::uint64_t most) const;
  /// The object in `field`, or nothing when it is not given.
  [[nodiscard]] std::optional<Config> object(std::string_view field) const;

  /// Experts of one layer, by any of the names that families give the count; names that disagree are refused.
  [[nodiscard]] std::uint64_t experts() const;
  /// A dense family has no place for experts: refuses to drop them when a field speaks of any.
  void refuse_experts(std::string_view architecture) const;
  /// Fields that would change names or shapes in ways no published checkpoint of the family shows.
  void refuse_if_given(std::initializer_list<std::string_view> fields) const;

  /// Throws Error(input): "<place>: <field> <why>", and the same with the field's value in between.
  [[noreturn]] void fail(std::string_view field, std::string_view why) const;
  [[noreturn]] void fail_value(std::string_view field, std::string_view why) const;

  [[nodiscard]] const std::string& place() const noexcept { return place_; }

 private:
  [[nodiscard]] const Json* find(std::string_view field) const;

  const Json* object_;
  std::string place_;
  std::string path_;
};

/// The dtype of plain tensors: `dtype` or, as older files call it, `torch_dtype`, of the language model or
/// else of the whole. BF16 when neither is given, as in gpt-oss: it is what trainers send.
[[nodiscard]] DType plain_dtype(const Config& text, const Config& root);

}  // namespace refit::model
