// The backends this build has: the one place that knows them all.
#pragma once

#include "common/refit_options.hpp"
#include "refit/device/backend.hpp"

namespace refit::apps {

/// Error(input) for a backend that this build lacks, Error(runtime) for one that cannot run here.
[[nodiscard]] std::unique_ptr<device::Backend> make_backend(const device::Choice& choice);

/// Reads --backend, --transport and --device into the replay request and completes it: on a GPU the default
/// memory budget is what is free there. Without a usable GPU, a dry run assumes one that holds everything.
void choose_backend(RefitOptions& options, bool dry_run);

}  // namespace refit::apps
