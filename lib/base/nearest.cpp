// The known word that was probably meant.
#include "base/nearest.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace refit {
namespace {

/// Insertions, deletions and replacements that make b out of a.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string_view> nearest(std::string_view text, std::span<const std::string_view> words) {
  // A long text costs its length times the word's, and is no misspelling of any name here.
  if (text.size() > 200) return std::nullopt;
  std::optional<std::string_view> best;
  std::size_t best_distance = 0;
  for (const std::string_view word : words) {
    const std::size_t distance = edit_distance(text, word);
    if (2 * distance > std::max(text.size(), word.size())) continue;
    if (!best || distance < best_distance) best = word, best_distance = distance;
  }
  return best;
}

}  // namespace refit
