// The safetensors header: checked as a whole before anybody touches the data, and written.
// What is refused follows the format's text and its reference implementation (safetensors/safetensors,
// safetensors/src/tensor.rs, `SafeTensors::read_metadata` and `Metadata::validate`); beyond those, keys that
// the format does not define and duplicate names are refused too.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <tuple>
#include <unordered_set>

#include "base/json.hpp"
#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"
#include "refit/checkpoint/safetensors.hpp"

namespace refit::checkpoint {
namespace {

constexpr std::size_t length_bytes = 8;
constexpr std::uint64_t max_header_bytes = 100'000'000;  // MAX_HEADER_SIZE of the reference
constexpr std::string_view metadata_key = "__metadata__";

/// The JSON text. Its length is compared with what is there before anything is added to it.
std::string_view header_text(std::span<const std::byte> file, const std::string& place) {
  if (file.size() < length_bytes) {
    fail_input(
        fmt::format("{}: has {} bytes, fewer than the {} of the header length that begins a safetensors file",
                    place, file.size(), length_bytes));
  }
  std::uint64_t length;
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(&length, file.data(), length_bytes);
  if (length > max_header_bytes) {
    fail_input(fmt::format("{}: the header length {} is more than the {} bytes that the format allows", place,
                           length, max_header_bytes));
  }
  const std::uint64_t available = file.size() - length_bytes;
  if (length > available) {
    fail_input(
        fmt::format("{}: {} bytes are missing: the header should have {} bytes, but the file ends after {}",
                    place, length - available, length, available));
  }
  return {reinterpret_cast<const char*>(file.data()) + length_bytes, static_cast<std::size_t>(length)};
}

/// One member of the header, and who it is in messages.
class Member {
 public:
  Member(const std::string& place, const std::string& name, const Json& value)
      : place_(place), name_(name), value_(value) {}

  [[nodiscard]] Entry read_tensor() const {
    require_only_known_keys();
    Entry entry;
    entry.spec = {name_, read_numbers("shape"), read_dtype()};
    const std::vector<std::uint64_t> offsets = read_numbers("data_offsets");
    if (offsets.size() != 2) {
      fail(fmt::format("data_offsets has {} numbers instead of a begin and an end", offsets.size()));
    }
    entry.begin = offsets[0];
    entry.end = offsets[1];
    if (entry.begin > entry.end) {
      fail(fmt::format("data_offsets [{}, {}] end before they begin", entry.begin, entry.end));
    }
    if (const std::uint64_t needed = bytes_of(entry.spec); needed != entry.end - entry.begin) {
      fail(fmt::format("{} of shape {} needs {} bytes, but data_offsets [{}, {}] cover {}",
                       name_of(entry.spec.dtype), to_string(entry.spec.shape), needed, entry.begin, entry.end,
                       entry.end - entry.begin));
    }
    return entry;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    fail_input(fmt::format("{}: tensor {}: {}", place_, json_quoted(name_), reason));
  }

  void require_only_known_keys() const {
    if (!value_.is_object()) fail(fmt::format("is described by {} instead of an object", shown(value_)));
    constexpr std::array<std::string_view, 3> known{"dtype", "shape", "data_offsets"};
    for (const auto& [key, ignored] : value_.items()) {
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        fail(fmt::format("has the key {}, which the format does not define", json_quoted(key)));
      }
    }
  }

  [[nodiscard]] const Json& at(const char* key) const {
    const auto found = value_.find(key);
    if (found == value_.end()) fail(fmt::format("has no {}", key));
    return *found;
  }

  [[nodiscard]] DType read_dtype() const {
    const Json& value = at("dtype");
    if (!value.is_string()) fail(fmt::format("dtype is {} instead of a string", shown(value)));
    const auto& name = value.get_ref<const std::string&>();
    if (const auto dtype = parse_dtype(name)) return *dtype;
    if (name == "F4" || name == "F6_E2M3" || name == "F6_E3M2") {
      fail(fmt::format("dtype {} has elements smaller than a byte, which are not supported", name));
    }
    fail(fmt::format("dtype {} is unknown", json_quoted(name)));
  }

  [[nodiscard]] std::vector<std::uint64_t> read_numbers(const char* key) const {
    const Json& list = at(key);
    if (!list.is_array()) fail(fmt::format("{} is {} instead of a list", key, shown(list)));
    std::vector<std::uint64_t> numbers;
    for (const Json& number : list) {
      if (!number.is_number_unsigned()) {
        fail(fmt::format("{} holds {}, which is not a whole number from 0 to 2^64 - 1", key, shown(number)));
      }
      numbers.push_back(number.get<std::uint64_t>());
    }
    return numbers;
  }

  [[nodiscard]] std::uint64_t bytes_of(const TensorSpec& spec) const {
    try {
      return spec.bytes();
    } catch (const Error& error) {
      fail(error.what());
    }
  }

  /// A value in messages, cut so that a hostile one does not fill the screen.
  static std::string shown(const Json& value) {
    if (value.is_structured()) return value.is_array() ? "a list" : "an object";
    return value.is_string() ? json_quoted(value.get_ref<const std::string&>()) : value.dump();
  }

  const std::string& place_;
  const std::string& name_;
  const Json& value_;
};

std::map<std::string, std::string> read_metadata(const Json& value, const std::string& place) {
  if (value.is_null()) return {};  // what MLX writes for none, and the reference reads as none
  if (!value.is_object()) fail_input(fmt::format("{}: __metadata__ is not an object", place));
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      fail_input(fmt::format("{}: __metadata__ {} is not a string", place, json_quoted(key)));
    }
    metadata.emplace(key, text.get_ref<const std::string&>());
  }
  return metadata;
}

/// The tensors, in order of their bytes, must cover the data area exactly.
void check_coverage(const std::vector<Entry>& entries, std::uint64_t data_bytes, const std::string& place) {
  std::uint64_t covered = 0;
  const Entry* last = nullptr;              // the one that ends at `covered`
  const Entry* first_incomplete = nullptr;  // the first that reaches past the file's end
  for (const Entry& entry : entries) {
    if (entry.begin < covered) {
      fail_input(fmt::format("{}: tensors {} (bytes {} to {}) and {} (bytes {} to {}) overlap", place,
                             json_quoted(last->spec.name), last->begin, last->end,
                             json_quoted(entry.spec.name), entry.begin, entry.end));
    }
    if (entry.begin > covered) {
      fail_input(fmt::format("{}: bytes {} to {} before tensor {} belong to no tensor", place, covered,
                             entry.begin, json_quoted(entry.spec.name)));
    }
    covered = entry.end;
    last = &entry;
    if (first_incomplete == nullptr && covered > data_bytes) first_incomplete = &entry;
  }
  if (first_incomplete != nullptr) {
    fail_input(fmt::format(
        "{}: {} bytes are missing: the tensors cover {} bytes, but the file ends after {} of them, "
        "in tensor {}",
        place, covered - data_bytes, covered, data_bytes, json_quoted(first_incomplete->spec.name)));
  }
  if (covered < data_bytes) {
    fail_input(
        fmt::format("{}: {} bytes after the last tensor belong to no tensor", place, data_bytes - covered));
  }
}

/// A JSON string. A header is UTF-8 and has no way to hold anything else.
std::string json_string(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::type_error&) {
    fail_input(fmt::format("a safetensors header cannot hold {}: it is not valid UTF-8", json_quoted(text)));
  }
}

std::string tensor_json(const TensorSpec& tensor, std::uint64_t begin, std::uint64_t end) {
  return fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", json_string(tensor.name),
                     name_of(tensor.dtype), fmt::join(tensor.shape, ","), begin, end);
}

std::string metadata_json(const std::map<std::string, std::string>& metadata) {
  std::string text = fmt::format("\"{}\":{{", metadata_key);
  for (const auto& [key, value] : metadata) {
    if (text.back() != '{') text += ',';
    text += json_string(key) + ":" + json_string(value);
  }
  return text + "}";
}

}  // namespace

std::vector<Entry> parse_header(std::span<const std::byte> file, const std::string& place,
                                std::map<std::string, std::string>* metadata) {
  const std::string_view text = header_text(file, place);
  if (!text.starts_with('{')) {
    fail_input(fmt::format("{}: the header is not a JSON object: it does not begin with '{{'", place));
  }
  constexpr int levels =
      8;  // the format has 3; a few more are left to the checks below, which name the tensor
  const Json header = parse_json(text, place + ": header", levels);
  std::vector<Entry> entries;
  entries.reserve(header.size());
  std::map<std::string, std::string> found_metadata;
  for (const auto& [name, value] : header.items()) {
    if (name == metadata_key) {
      found_metadata = read_metadata(value, place);
    } else {
      entries.push_back(Member(place, name, value).read_tensor());
    }
  }
  // A tensor without bytes sorts before the one that begins where it stands.
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.spec.name) < std::tie(b.begin, b.end, b.spec.name);
  });
  check_coverage(entries, file.size() - length_bytes - text.size(), place);
  if (metadata != nullptr) *metadata = std::move(found_metadata);
  return entries;
}

std::string make_header(const std::vector<TensorSpec>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += metadata_json(metadata);
  std::unordered_set<std::string_view> names{metadata_key};
  std::uint64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      fail_input(fmt::format("a safetensors header cannot hold a second {}", json_quoted(tensor.name)));
    }
    const std::uint64_t bytes = tensor.bytes();  // at most 2^63, so that the sum below cannot wrap
    if (offset + bytes > (std::uint64_t{1} << 63)) {
      fail_input(fmt::format("a safetensors file that ends with tensor {} would have more than 2^63 bytes",
                             json_quoted(tensor.name)));
    }
    if (text.size() > 1) text += ',';
    text += tensor_json(tensor, offset, offset + bytes);
    offset += bytes;
  }
  text += '}';
  text.resize(align_up(text.size(), 8), ' ');
  if (text.size() > max_header_bytes) {
    fail_input(fmt::format(
        "a safetensors header of {} tensors would have {} bytes, more than the {} that the format "
        "allows",
        tensors.size(), text.size(), max_header_bytes));
  }
  const std::uint64_t length = text.size();
  std::string header(length_bytes, '\0');
  std::memcpy(header.data(), &length, length_bytes);
  return header + text;
}

}  // namespace refit::checkpoint
