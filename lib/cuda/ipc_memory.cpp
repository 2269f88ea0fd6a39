// cudaMalloc shared by cudaIpcMemHandle. The driver counts how often a process has opened a handle.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "cuda/buffers.hpp"
#include "cuda/check.hpp"
#include "cuda/memory.hpp"
#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"

namespace refit::cuda {
namespace {

/// CUDA may take small allocations from one block and shares the whole block then; it advises this size.
constexpr std::uint64_t kBlock = 2u << 20;

class IpcShared final : public device::Memory {
 public:
  IpcShared(SessionPtr session, std::uint64_t bytes, const std::string& what)
      // One byte more than none: an empty allocation has a handle, too.
      : session_(std::move(session)),
        data_(allocate_device(*session_, align_up(std::max<std::uint64_t>(bytes, 1), kBlock), what)) {
    bytes_ = {data_, bytes};
  }
  IpcShared(const IpcShared&) = delete;
  IpcShared& operator=(const IpcShared&) = delete;
  ~IpcShared() override { free_device(*session_, data_); }
  Handle handle() const override {
    cudaIpcMemHandle_t handle;
    check(cudaIpcGetMemHandle(&handle, data_), "making a CUDA IPC handle");
    return {.token = std::string(reinterpret_cast<const char*>(&handle), sizeof(handle)), .fd = -1};
  }
  MemoryPtr window(std::uint64_t, std::uint64_t) const override { fail_own_window(); }

 private:
  SessionPtr session_;
  std::byte* data_;
};

class IpcOpened final : public device::Memory {
 public:
  IpcOpened(SessionPtr session, const cudaIpcMemHandle_t& handle, std::uint64_t bytes, std::string what)
      : session_(std::move(session)), handle_(handle), what_(std::move(what)) {
    check(cudaIpcOpenMemHandle(&data_, handle_, cudaIpcMemLazyEnablePeerAccess),
          fmt::format("opening the CUDA IPC handle of {}", what_));
    ++session_->handles.opened;
    bytes_ = {static_cast<std::byte*>(data_), bytes};
  }
  IpcOpened(const IpcOpened&) = delete;
  IpcOpened& operator=(const IpcOpened&) = delete;
  ~IpcOpened() override {
    session_->drain();  // work that still reads it
    if (!session_->gave_up()) (void)cudaIpcCloseMemHandle(data_);
    ++session_->handles.closed;
  }
  Handle handle() const override { fail_sent_on(); }
  MemoryPtr window(std::uint64_t offset, std::uint64_t count) const override {
    require_inside(bytes_.size(), offset, count, what_);
    auto opened = std::make_unique<IpcOpened>(session_, handle_, bytes_.size(), what_);
    opened->bytes_ = opened->bytes_.subspan(offset, count);
    return opened;
  }

 private:
  SessionPtr session_;
  cudaIpcMemHandle_t handle_;
  std::string what_;
  void* data_ = nullptr;
};

}  // namespace

MemoryPtr allocate_ipc(const SessionPtr& session, std::uint64_t bytes, const std::string& what) {
  return std::make_unique<IpcShared>(session, bytes, what);
}

MemoryPtr open_ipc(const SessionPtr& session, const std::string& token, std::uint64_t bytes,
                   const std::string& what) {
  cudaIpcMemHandle_t handle;
  if (token.size() != sizeof(handle)) {
    fail_runtime(fmt::format("the CUDA IPC handle of {} has {} bytes, and {} make one", what, token.size(),
                             sizeof(handle)));
  }
  std::memcpy(&handle, token.data(), sizeof(handle));
  return std::make_unique<IpcOpened>(session, handle, bytes, what);
}

}  // namespace refit::cuda
