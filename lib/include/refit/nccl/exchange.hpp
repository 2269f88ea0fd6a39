// Rounds between GPUs over NCCL: grouped sends and receives of exactly the bytes that are needed.
#pragma once

#include <memory>

#include "refit/transport/group.hpp"

namespace refit::nccl {

/// Device memory of GPU `ordinal` of each rank; every rank has a GPU of its own. Collective over `group`,
/// which stays and is used once, to meet. A stream of its own carries the rounds: what is sent has to be
/// there when start() is called. Error(runtime) with NCCL's words; when a deadline passes, the communicator
/// is aborted, so that the process can end.
[[nodiscard]] std::unique_ptr<transport::Exchange> make_exchange(transport::Group& group, int ordinal,
                                                                 Deadline deadline);

}  // namespace refit::nccl
