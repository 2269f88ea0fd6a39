// Who started this process as one of many ranks, and how it ends as one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "refit/transport/session.hpp"

namespace refit::apps {

enum class Launcher { mpi, tcp };

/// By the variables of this process. Error(input) when it is none of `ranks`, with how to start them, and
/// when host memory is to travel by a --transport that is not this launcher's.
[[nodiscard]] Launcher launcher_of(std::uint32_t ranks, const std::string& transport);

/// Meets the others and returns what `body` does. An error of it, and the loss of another rank, end all
/// ranks; Error only before they have met.
[[nodiscard]] int run_as_rank(Launcher launcher, double timeout_s,
                              const std::function<int(transport::Session& session)>& body);

}  // namespace refit::apps
