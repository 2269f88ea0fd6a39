// The hidden half of every app that runs refits: the generator that it starts as a child of itself.
#pragma once

#include <CLI/CLI.hpp>

#include "refit/run/bench.hpp"

namespace refit::apps {

/// Adds the hidden option that makes the program a generator.
void add_generator_role(CLI::App& app, bool& wanted);

/// Serves refits over the inherited socket; the exit code of the process.
[[nodiscard]] int run_generator_role();

/// Makes run_bench start this program in that role.
void start_generators_as_this_program(run::BenchSpec& spec);

}  // namespace refit::apps
