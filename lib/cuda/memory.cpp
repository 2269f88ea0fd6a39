// Memory of one process, and what the other kinds have in common.
#include "cuda/memory.hpp"

#include <fmt/format.h>

#include "cuda/buffers.hpp"
#include "refit/base/error.hpp"

namespace refit::cuda {
namespace {

class Private final : public device::Memory {
 public:
  Private(SessionPtr session, std::uint64_t bytes, const std::string& what)
      : session_(std::move(session)), data_(allocate_device(*session_, bytes, what)) {
    bytes_ = {data_, bytes};
  }
  Private(const Private&) = delete;
  Private& operator=(const Private&) = delete;
  ~Private() override { free_device(*session_, data_); }
  Handle handle() const override { fail_runtime("GPU memory of one process was to be sent to another"); }
  MemoryPtr window(std::uint64_t, std::uint64_t) const override { fail_own_window(); }

 private:
  SessionPtr session_;
  std::byte* data_;
};

}  // namespace

MemoryPtr allocate_private(const SessionPtr& session, std::uint64_t bytes, const std::string& what) {
  return std::make_unique<Private>(session, bytes, what);
}

void fail_own_window() {
  fail_runtime("a window was asked of GPU memory that no peer allocated");
}

void fail_sent_on() {
  fail_runtime("a peer's GPU memory was to be sent on");
}

void require_inside(std::uint64_t bytes, std::uint64_t offset, std::uint64_t count, const std::string& what) {
  if (offset > bytes || count > bytes - offset) {
    fail_runtime(fmt::format("a window of {} bytes at byte {} was asked of {}, which has {} bytes", count,
                             offset, what, bytes));
  }
}

}  // namespace refit::cuda
