// A strict reader over nlohmann's SAX interface: one pass builds the value and refuses what JSON leaves open.
#include "base/json.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "refit/base/error.hpp"

namespace refit {
namespace {

/// A pointer that also leaves its position with the owner of the text, who can then say where parsing stood:
/// the SAX interface tells a handler no position.
class TrackedIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackedIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  TrackedIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  friend bool operator==(TrackedIterator a, TrackedIterator b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  const char** reached_;
};

/// A parser's message for people: without its "[json.exception...] " tag and its own position, at most 200
/// bytes, and plain ASCII, because it quotes input that need not be UTF-8.
std::string readable(std::string_view message) {
  if (const auto tag = message.find("] "); message.starts_with('[') && tag != message.npos) {
    message.remove_prefix(tag + 2);
  }
  if (const auto colon = message.find(": "); message.starts_with("parse error") && colon != message.npos) {
    message.remove_prefix(colon + 2);
  }
  std::string text;
  for (const char c : message) {
    if (text.size() >= 200) return text + "...";
    if (c >= ' ' && c <= '~') {
      text += c;
    } else {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return text;
}

class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, const std::string& place, int max_depth)
      : text_(text), place_(place), max_depth_(max_depth) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(Json::number_integer_t value) override { return add(value); }
  bool number_unsigned(Json::number_unsigned_t value) override { return add(value); }
  bool number_float(Json::number_float_t value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }  // not in JSON text
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    auto& members = open_.back()->get_ref<Json::object_t&>();
    const auto [member, is_new] = members.emplace(std::move(name), nullptr);
    if (!is_new) fail(reached(), fmt::format("duplicate key {}", json_quoted(member->first)));
    member_ = &member->second;
    last_key_ = &member->first;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const Json::exception& error) override {
    const std::string where =
        last_key_ == nullptr ? "" : fmt::format(" (the key before is {})", json_quoted(*last_key_));
    fail(position, readable(error.what()) + where);
  }

  [[nodiscard]] Json build() {
    // The lexer takes a zero byte for the end of the text.
    if (const auto zero = text_.find('\0'); zero != text_.npos) fail(zero + 1, "a zero byte in the text");
    Json::sax_parse(TrackedIterator(text_.data(), &reached_),
                    TrackedIterator(text_.data() + text_.size(), &reached_), this);
    return std::move(root_);
  }

 private:
  [[noreturn]] void fail(std::size_t position, const std::string& reason) const {
    const std::string_view before = text_.substr(0, position);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t line_start = before.find_last_of('\n') + 1;  // npos + 1 is 0
    fail_input(fmt::format("{}: line {}, column {}: {}", place_, line, before.size() - line_start, reason));
  }

  [[nodiscard]] std::size_t reached() const { return static_cast<std::size_t>(reached_ - text_.data()); }

  Json& put(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    Json& parent = *open_.back();
    if (parent.is_object()) return *member_ = std::move(value);
    parent.push_back(std::move(value));
    return parent.back();
  }

  template <typename Value>
  bool add(Value&& value) {
    put(Json(std::forward<Value>(value)));
    return true;
  }

  bool open(Json value) {
    if (open_.size() >= static_cast<std::size_t>(max_depth_)) {
      fail(reached(), fmt::format("nested more than {} levels deep", max_depth_));
    }
    open_.push_back(&put(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& place_;
  int max_depth_;
  const char* reached_ = text_.data();
  Json root_;
  std::vector<Json*> open_;  // stays valid: a container grows only while it is the innermost one
  Json* member_ = nullptr;   // the value of the last key
  const std::string* last_key_ = nullptr;
};

}  // namespace

std::string json_quoted(std::string_view text) {
  constexpr std::size_t longest = 200;
  const std::string shown(text.substr(0, longest));
  // Bytes that are not UTF-8, such as half a character at the cut, become U+FFFD instead of an exception.
  return Json(shown).dump(-1, ' ', false, Json::error_handler_t::replace) +
         (text.size() > longest ? "..." : "");
}

Json parse_json(std::string_view text, const std::string& place, int max_depth) {
  return Builder(text, place, max_depth).build();
}

std::string read_json_text(const std::string& path, std::size_t max_bytes) {
  const ReadableFile file(path);

  // Read to the end, not to the size reported before: the file may grow meanwhile, and files of /proc have
  // none.
  std::string text;
  std::vector<char> piece(std::size_t{1} << 16);
  for (;;) {
    const ssize_t got = ::read(file.fd(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(path, "cannot read the file", errno);
    if (got == 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
    if (text.size() > max_bytes) {
      fail_input(
          fmt::format("{}: is larger than the {} bytes that a JSON file may have here", path, max_bytes));
    }
  }
  return text;
}

Json read_json_file(const std::string& path, std::size_t max_bytes) {
  return parse_json(read_json_text(path, max_bytes), path);
}

}  // namespace refit
