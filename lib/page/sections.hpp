// The parts of the page from top to bottom, each as whole elements; empty where there is nothing to show.
#pragma once

#include <string>
#include <string_view>

#include "page/result.hpp"

namespace refit::page {

/// Scenario, verdict, and which figures come from where.
[[nodiscard]] std::string top_section(const Result& result);
/// The scenario in words.
[[nodiscard]] std::string title_lines(const Result& result, const char* program);
/// Says that only one of the ranks ran.
[[nodiscard]] std::string simulated_text(const Ranks& ranks);
/// The transfer of both arms in three numbers.
[[nodiscard]] std::string headline_section(const Result& result);
/// Where a refit's time goes, and a training step's as it was published.
[[nodiscard]] std::string bars_section(const Result& result);
[[nodiscard]] std::string phase_section(const Result& result);
/// The same on hardware that was not there, if anybody asked.
[[nodiscard]] std::string projected_section(const Result& result);
[[nodiscard]] std::string stage_section(const Result& result);
/// Every measured refit as a point.
[[nodiscard]] std::string samples_section(const Result& result);
[[nodiscard]] std::string ranks_section(const Result& result);
/// When each round of many ranks was packed, under way and placed.
[[nodiscard]] std::string rounds_section(const Result& result);
[[nodiscard]] std::string memory_section(const Result& result);
/// What each process held over the last measured refit.
[[nodiscard]] std::string memory_over_time(const Result& result);
/// Every check of both arms, and what it found.
[[nodiscard]] std::string verify_section(const Result& result);
/// What the arms do differently.
[[nodiscard]] std::string setup_section(const Result& result);
/// Machine, program, settings; `note` is HTML above them.
[[nodiscard]] std::string environment_section(const Result& result, const std::string& note);
/// The text itself, to be saved.
[[nodiscard]] std::string json_section(std::string_view json);

}  // namespace refit::page
