// Known ways of being wrong, tried on a tensor that differs until one reproduces all of its bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "audit/render.hpp"

namespace refit::audit {

/// A tensor of the dump that is not what it has to be.
struct Case {
  const Renderer& renderer;
  const Target& target;
  Way right;
  Bytes dump;
};

/// One exact wrong way.
struct Guess {
  std::string sentence;
  Way way;
  std::optional<std::uint64_t> prefix{};  ///< only these first bytes are known; else all, and no others
};

/// A kind of wrong way. To add one, add it to all_hypotheses().
struct Hypothesis {
  std::string_view name;
  bool (*applies)(const Case&);
  std::vector<Guess> (*guesses)(const Case&);  ///< the most likely one first
};
/// Cheap ones first; the first that reproduces every byte is the diagnosis.
[[nodiscard]] const std::vector<Hypothesis>& all_hypotheses();

/// "unknown" when none does.
[[nodiscard]] Diagnosis diagnose(const Case& that);

}  // namespace refit::audit
