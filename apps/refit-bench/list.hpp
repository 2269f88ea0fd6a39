// --list.
#pragma once

namespace refit::apps {

/// Prints the scenarios that are found by name, one a line, fields two spaces apart, the name first. On a
/// terminal with a heading, and cut to its width; elsewhere whole and without, for other programs.
int list_scenarios();

}  // namespace refit::apps
