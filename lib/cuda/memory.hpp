// GPU memory behind the Memory interface: of this process alone, or shared by one of two roads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cuda/session.hpp"
#include "refit/device/memory.hpp"
#include "refit/transport/unix_channel.hpp"

namespace refit::cuda {

using MemoryPtr = std::unique_ptr<device::Memory>;

/// Memory of this process alone.
[[nodiscard]] MemoryPtr allocate_private(const SessionPtr& session, std::uint64_t bytes,
                                         const std::string& what);

/// cudaMalloc and cudaIpcMemHandle: the token is the handle.
[[nodiscard]] MemoryPtr allocate_ipc(const SessionPtr& session, std::uint64_t bytes, const std::string& what);
[[nodiscard]] MemoryPtr open_ipc(const SessionPtr& session, const std::string& token, std::uint64_t bytes,
                                 const std::string& what);

/// cuMemCreate and a POSIX file descriptor.
[[nodiscard]] MemoryPtr allocate_vmm(const SessionPtr& session, std::uint64_t bytes, const std::string& what);
[[nodiscard]] MemoryPtr open_vmm(const SessionPtr& session, transport::UniqueFd fd, std::uint64_t bytes,
                                 const std::string& what);

/// What calls say that make no sense for a kind of memory.
[[noreturn]] void fail_own_window();
[[noreturn]] void fail_sent_on();
/// Error(runtime) unless [offset, offset + count) is a part of `bytes` bytes.
void require_inside(std::uint64_t bytes, std::uint64_t offset, std::uint64_t count, const std::string& what);

}  // namespace refit::cuda
