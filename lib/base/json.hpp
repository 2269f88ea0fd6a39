// Strict JSON reading for the library's own files. Internal: public headers carry no JSON type.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace refit {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

/// Parses a whole text. Refuses duplicate keys, trailing text, invalid UTF-8 and more than `max_depth` nested
/// levels, with Error(input) that begins with `place` (a file name) and says where.
[[nodiscard]] Json parse_json(std::string_view text, const std::string& place, int max_depth = 64);

/// `text` as a JSON string in double quotes, for messages: no control characters, valid UTF-8, cut after 200
/// bytes.
[[nodiscard]] std::string json_quoted(std::string_view text);

inline constexpr std::size_t kMostJsonBytes = 64u << 20;

/// The bytes of a file of at most `max_bytes`.
[[nodiscard]] std::string read_json_text(const std::string& path, std::size_t max_bytes = kMostJsonBytes);
/// Reads and parses one.
[[nodiscard]] Json read_json_file(const std::string& path, std::size_t max_bytes = kMostJsonBytes);

}  // namespace refit
