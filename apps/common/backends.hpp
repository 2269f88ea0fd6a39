// The backends this build has: the one place that knows them all.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "refit/device/backend.hpp"

namespace refit::apps {

struct BackendOptions {
  std::string kind = "cpu";
  int ordinal = 0;
};

/// --backend and --device.
void add_backend_options(CLI::App& app, BackendOptions& options, const std::string& description);

/// Error(input) for a backend that is not known, a GPU's number without a GPU, and a transport ("auto" or a
/// name) of another backend.
[[nodiscard]] device::Choice backend_choice(const BackendOptions& options, const std::string& transport);

/// Error(input) for a backend that this build lacks, Error(runtime) for one that cannot run here.
[[nodiscard]] std::unique_ptr<device::Backend> make_backend(const device::Choice& choice);

/// What a replay may take of a GPU's free memory: all but a little for other users of it, at least 1 byte.
[[nodiscard]] std::uint64_t usable_memory(const device::Choice& choice);

}  // namespace refit::apps
