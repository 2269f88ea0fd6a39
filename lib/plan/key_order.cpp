// Words for keys out of place.
#include "plan/key_order.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.hpp"

namespace refit::plan {
namespace {

/// The entry with that name, or the count of entries.
std::size_t find_entry(const Wire& wire, std::string_view name) {
  const auto found = std::find_if(wire.entries.begin(), wire.entries.end(),
                                  [&](const WireEntry& entry) { return entry.name == name; });
  return static_cast<std::size_t>(found - wire.entries.begin());
}

}  // namespace

std::string describe_wrong_key(const Wire& wire, std::size_t expected, std::string_view got,
                               bool comes_later) {
  const std::string& due = wire.entries[expected].name;
  const std::size_t known = find_entry(wire, got);
  if (known == wire.entries.size()) {
    return fmt::format("unexpected key {} where {} was due", json_quoted(got), due);
  }
  if (known < expected) {
    return fmt::format("duplicate key {} (it came before as number {}) where {} was due", json_quoted(got),
                       known, due);
  }
  if (comes_later) return fmt::format("reordered key {} where {} was due", json_quoted(got), due);
  return fmt::format("missing key {}: {} came in its place", due, json_quoted(got));
}

std::string describe_extra_key(const Wire& wire, std::size_t next, std::string_view got) {
  const std::size_t known = find_entry(wire, got);
  if (known == wire.entries.size()) {
    return fmt::format("unexpected key {} after the last one", json_quoted(got));
  }
  if (known < next) {
    return fmt::format("duplicate key {} (it came before as number {}) after the last one", json_quoted(got),
                       known);
  }
  return fmt::format("reordered key {} after the last one", json_quoted(got));
}

}  // namespace refit::plan
