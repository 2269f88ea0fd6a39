// Reads and checks fields of a Hugging Face config.json.
#include "model/config.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "refit/base/error.hpp"

namespace refit::model {
namespace {

constexpr std::array<std::string_view, 3> expert_counts{"num_experts", "num_local_experts",
                                                        "n_routed_experts"};

/// A value as messages quote it: numbers and texts as they stand, cut short, and containers by their kind.
std::string shown(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return value.is_string() ? json_quoted(value.get_ref<const std::string&>()) : value.dump();
}

std::optional<DType> torch_dtype(std::string_view name) {
  if (name == "bfloat16") return DType::bf16;
  if (name == "float16") return DType::f16;
  if (name == "float32") return DType::f32;
  return std::nullopt;
}

std::optional<DType> given_dtype(const Config& config) {
  std::optional<DType> found;
  for (const std::string_view field : {"dtype", "torch_dtype"}) {
    const auto name = config.text(field);
    if (!name) continue;
    const auto dtype = torch_dtype(*name);
    if (!dtype) config.fail_value(field, "is none of bfloat16, float16 and float32");
    if (found && *found != *dtype) config.fail_value(field, "disagrees with dtype");
    found = dtype;
  }
  return found;
}

}  // namespace

Config::Config(const Json& object, std::string place, std::string path)
    : object_(&object), place_(std::move(place)), path_(std::move(path)) {}

const Json* Config::find(std::string_view field) const {
  const auto at = object_->find(std::string(field));
  return at == object_->end() || at->is_null() ? nullptr : &*at;
}

bool Config::has(std::string_view field) const {
  return find(field) != nullptr;
}

void Config::fail(std::string_view field, std::string_view why) const {
  fail_input(fmt::format("{}: {}{} {}", place_, path_, field, why));
}

void Config::fail_value(std::string_view field, std::string_view why) const {
  const Json* value = find(field);
  fail_input(fmt::format("{}: {}{} = {} {}", place_, path_, field, value ? shown(*value) : "null", why));
}

std::optional<std::uint64_t> Config::optional_number(std::string_view field, std::uint64_t most,
                                                     std::uint64_t least) const {
  const Json* value = find(field);
  if (!value) return std::nullopt;
  // Negative numbers are the only integers that the parser does not keep as unsigned.
  if (!value->is_number_unsigned() || value->get<std::uint64_t>() < least ||
      value->get<std::uint64_t>() > most) {
    fail_value(field, fmt::format("is not a whole number from {} to {}", least, most));
  }
  return value->get<std::uint64_t>();
}

std::uint64_t Config::number(std::string_view field, std::uint64_t most, std::uint64_t least) const {
  const auto value = optional_number(field, most, least);
  if (!value) fail(field, fmt::format("is missing; it has to be a whole number from {} to {}", least, most));
  return *value;
}

bool Config::flag(std::string_view field, bool otherwise) const {
  const Json* value = find(field);
  if (!value) return otherwise;
  if (!value->is_boolean()) fail_value(field, "is neither true nor false");
  return value->get<bool>();
}

std::optional<std::string> Config::text(std::string_view field) const {
  const Json* value = find(field);
  if (!value) return std::nullopt;
  if (!value->is_string()) fail_value(field, "is not a text");
  return value->get<std::string>();
}

std::vector<std::string> Config::texts(std::string_view field) const {
  const Json* value = find(field);
  if (!value) return {};
  if (!value->is_array()) fail_value(field, "is not a list of texts");
  std::vector<std::string> result;
  for (const Json& element : *value) {
    if (!element.is_string()) fail(field, fmt::format("holds {}, which is not a text", shown(element)));
    result.push_back(element.get<std::string>());
  }
  return result;
}

std::vector<std::uint64_t> Config::numbers(std::string_view field, std::uint64_t most) const {
  const Json* value = find(field);
  if (!value) return {};
  if (!value->is_array()) fail_value(field, "is not a list of numbers");
  std::vector<std::uint64_t> result;
  for (const Json& element : *value) {
    if (!element.is_number_unsigned() || element.get<std::uint64_t>() > most) {
      fail(field, fmt::format("holds {}, which is not a whole number from 0 to {}", shown(element), most));
    }
    result.push_back(element.get<std::uint64_t>());
  }
  return result;
}

std::optional<Config> Config::object(std::string_view field) const {
  const Json* value = find(field);
  if (!value) return std::nullopt;
  if (!value->is_object()) fail_value(field, "is not an object");
  return Config(*value, place_, fmt::format("{}{}.", path_, field));
}

std::uint64_t Config::experts() const {
  std::optional<std::uint64_t> count;
  for (const std::string_view field : expert_counts) {
    const auto value = optional_number(field, limits::experts);
    if (value && count && *value != *count) {
      fail_value(field, fmt::format("disagrees with the {} experts that another field gives", *count));
    }
    if (value) count = value;
  }
  if (!count) {
    fail(expert_counts[0],
         fmt::format("is missing, and so are {} and {}: one of them has to be a whole number from 1 to {}",
                     expert_counts[1], expert_counts[2], limits::experts));
  }
  return *count;
}

void Config::refuse_experts(std::string_view architecture) const {
  for (const std::string_view field :
       {expert_counts[0], expert_counts[1], expert_counts[2], std::string_view("moe_intermediate_size"),
        std::string_view("num_experts_per_tok")}) {
    if (optional_number(field, UINT64_MAX, 0).value_or(0) != 0) {
      fail_value(field, fmt::format("speaks of experts, but {} is a dense architecture", architecture));
    }
  }
}

void Config::refuse_if_given(std::initializer_list<std::string_view> fields) const {
  for (const std::string_view field : fields) {
    const Json* value = find(field);
    if (value && *value != Json(false) && *value != Json::array()) fail_value(field, "is not supported");
  }
}

DType plain_dtype(const Config& text, const Config& root) {
  if (const auto dtype = given_dtype(text)) return *dtype;
  return given_dtype(root).value_or(DType::bf16);
}

}  // namespace refit::model
