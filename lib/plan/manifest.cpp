// The manifest: written as text in one pass, read back with the strict JSON reader.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/json.hpp"
#include "plan/digest.hpp"
#include "plan/key_order.hpp"
#include "plan/names.hpp"
#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "refit/plan/wire.hpp"

namespace refit::plan {
namespace {

constexpr std::string_view schema = "refit-manifest/1";
constexpr const char* place = "The manifest received";

bool needs_escape(char c) {
  return c < ' ' || c > '~' || c == '"' || c == '\\';
}

void append_string(std::string& out, std::string_view text) {
  if (std::none_of(text.begin(), text.end(), needs_escape)) {
    out += '"';
    out += text;
    out += '"';
    return;
  }
  try {
    out += Json(text).dump();
  } catch (const Json::exception&) {
    fail_input(
        fmt::format("The tensor name {} is not UTF-8, so no manifest can carry it.", json_quoted(text)));
  }
}

void append_tensor(std::string& out, const WireEntry& entry) {
  out += R"({"name":)";
  append_string(out, entry.name);
  out += R"(,"dtype":")";
  out += name_of(entry.dtype);
  out += R"(","shape":[)";
  for (std::size_t i = 0; i < entry.shape.size(); ++i) {
    if (i > 0) out += ',';
    const fmt::format_int digits(entry.shape[i]);
    out.append(digits.data(), digits.size());
  }
  out += "]}";
}

/// A member of an object, of the type that the schema gives it.
const Json& member(const Json& object, const char* key, Json::value_t type, std::string_view where) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end() || found->type() != type) {
    fail_input(fmt::format("{}: {} has no {} \"{}\".", place, where, Json(type).type_name(), key));
  }
  return *found;
}

const std::string& text_member(const Json& object, const char* key, std::string_view where) {
  return member(object, key, Json::value_t::string, where).get_ref<const std::string&>();
}

void check_text(const Json& manifest, const char* key, std::string_view expected, std::string_view meaning) {
  const std::string& got = text_member(manifest, key, "it");
  if (got != expected) {
    fail_input(fmt::format("{} says {} {}, but here it is {}: {}.", place, key, json_quoted(got), expected,
                           meaning));
  }
}

void check_shape(const Json& tensor, const WireEntry& entry) {
  const Json& dimensions = member(tensor, "shape", Json::value_t::array, entry.name);
  const auto equal = [](const Json& got, std::uint64_t expected) {
    return got.is_number_unsigned() && got.get<std::uint64_t>() == expected;
  };
  if (!std::equal(dimensions.begin(), dimensions.end(), entry.shape.begin(), entry.shape.end(), equal)) {
    fail_input(fmt::format("{} gives {} the shape {}, but it is {} here.", place, entry.name,
                           json_quoted(dimensions.dump()), to_string(entry.shape)));
  }
}

void check_tensors(const Json& tensors, const Wire& wire) {
  const auto name_at = [&](std::size_t i) -> const std::string& {
    return text_member(tensors[i], "name", fmt::format("tensor {}", i));
  };
  const auto comes_after = [&](std::size_t i, const std::string& name) {
    for (std::size_t k = i + 1; k < tensors.size(); ++k) {
      if (name_at(k) == name) return true;
    }
    return false;
  };
  const std::size_t common = std::min(tensors.size(), wire.entries.size());
  for (std::size_t i = 0; i < common; ++i) {
    const WireEntry& entry = wire.entries[i];
    if (name_at(i) != entry.name) {
      fail_input(fmt::format("{} has at number {} {}.", place, i,
                             describe_wrong_key(wire, i, name_at(i), comes_after(i, entry.name))));
    }
    const std::string& dtype = text_member(tensors[i], "dtype", entry.name);
    if (dtype != name_of(entry.dtype)) {
      fail_input(fmt::format("{} gives {} the dtype {}, but it is {} here.", place, entry.name,
                             json_quoted(dtype), name_of(entry.dtype)));
    }
    check_shape(tensors[i], entry);
  }
  if (tensors.size() > common) {
    fail_input(fmt::format("{} has {}.", place, describe_extra_key(wire, common, name_at(common))));
  }
  if (wire.entries.size() > common) {
    fail_input(
        fmt::format("{} ends after {} tensors: missing key {}.", place, common, wire.entries[common].name));
  }
}

}  // namespace

std::string encode_manifest(const Plan& plan, const Wire& wire) {
  constexpr std::size_t typical_tensor = 112;
  std::string out;
  out.reserve(256 + typical_tensor * wire.entries.size());
  fmt::format_to(std::back_inserter(out),
                 R"({{"schema":"{}","plan":"{}","digest":"{}","rounding":"{}","zero_scale":"{}","tensors":[)",
                 schema, digest_hex(plan.digest), digest_hex(digest_of(wire)),
                 quant::name_of(plan.quant.rounding), names::of(names::zero_scale, plan.quant.zero_scale));
  for (std::size_t i = 0; i < wire.entries.size(); ++i) {
    if (i > 0) out += ',';
    append_tensor(out, wire.entries[i]);
  }
  out += "]}";
  return out;
}

void check_manifest(std::string_view manifest, const Plan& plan, const Wire& wire) {
  const Json received = parse_json(manifest, place);
  check_text(received, "schema", schema, "no other schema can be read");
  check_tensors(member(received, "tensors", Json::value_t::array, "it"), wire);
  check_text(received, "rounding", quant::name_of(plan.quant.rounding), "both sides must round alike");
  check_text(received, "zero_scale", names::of(names::zero_scale, plan.quant.zero_scale),
             "both sides must treat scale byte 0 alike");
  check_text(received, "digest", digest_hex(digest_of(wire)),
             "the tensors agree, but they are filled into buckets in another way");
  check_text(received, "plan", digest_hex(plan.digest),
             "the tensors agree, but the plans differ in layout, order or operation");
}

}  // namespace refit::plan
