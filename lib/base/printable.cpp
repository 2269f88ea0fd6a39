// Decoding UTF-8 one character at a time.
#include "refit/base/printable.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

namespace refit {
namespace {

/// A character and its bytes; 0 bytes where there is none. Source: Unicode 15, table 3-7 (well-formed UTF-8).
struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;
};

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  const bool too_long = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (too_long || surrogate || code > 0x10FFFF) return {};
  return {code, bytes};
}

/// Sources: Unicode 15, general category Cc and section 23.7 (noncharacters); UAX 9, table 4 (bidirectional
/// marks, embeddings and isolates); U+2028 and U+2029 end a line. XML 1.0, production 2, leaves out a part of
/// these.
bool is_visible(std::uint32_t code) {
  const auto between = [code](std::uint32_t first, std::uint32_t last) {
    return code >= first && code <= last;
  };
  const bool control = code < 0x20 || between(0x7F, 0x9F);
  const bool line = code == 0x2028 || code == 0x2029;
  const bool direction =
      code == 0x61C || between(0x200E, 0x200F) || between(0x202A, 0x202E) || between(0x2066, 0x2069);
  const bool nothing = between(0xFDD0, 0xFDEF) || (code & 0xFFFE) == 0xFFFE || code == 0xFEFF;
  return !control && !line && !direction && !nothing;
}

std::string written_out(std::uint32_t code) {
  switch (code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  if (code < 0x80) return fmt::format("\\x{:02x}", code);
  return code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    if (character.bytes == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
      text.remove_prefix(1);
      continue;
    }
    if (is_visible(character.code)) {
      out += text.substr(0, character.bytes);
    } else {
      out += written_out(character.code);
    }
    text.remove_prefix(character.bytes);
  }
  return out;
}

}  // namespace refit
