// What a launcher's ranks share from their meeting to their end. Implementations: TCP
// (refit/transport/tcp.hpp), MPI (refit/mpi).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "refit/transport/group.hpp"

namespace refit::transport {

/// Is told, on a thread of its own, when another rank is gone while the session lasts, or when the launcher
/// asks this process to end (SIGTERM): one sentence with that rank's number and what it did last. It has to
/// end the process.
using OnLoss = std::function<void(const std::string& sentence)>;

/// One rank's part in it. What group() and exchange() give is used by the thread that made the session, and
/// ends before it. The session's end waits for the other ranks to come to theirs.
class Session {
 public:
  virtual ~Session() = default;
  [[nodiscard]] virtual std::unique_ptr<Group> group() = 0;
  /// Host memory alone; one at a time.
  [[nodiscard]] virtual std::unique_ptr<Exchange> exchange() = 0;
  /// This rank's number among those of its host, and how many these are.
  [[nodiscard]] virtual std::uint32_t local_rank() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t ranks_on_this_host() const noexcept = 0;
  /// Ends all ranks at once: what a rank does that cannot go on.
  [[noreturn]] virtual void abort(int exit_code) noexcept = 0;
};

}  // namespace refit::transport
