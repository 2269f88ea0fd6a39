// cuMemCreate shared by a POSIX file descriptor: physical memory first, addresses for it later.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "cuda/buffers.hpp"
#include "cuda/check.hpp"
#include "cuda/driver.hpp"
#include "cuda/memory.hpp"
#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"

namespace refit::cuda {
namespace {

CUmemAllocationProp properties_of(const Session& session) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = session.gpu().ordinal;
  return properties;
}

/// Both sides round alike, so that a peer maps what there is; an empty allocation has a handle, too.
std::uint64_t rounded(const Session& session, std::uint64_t bytes) {
  const CUmemAllocationProp properties = properties_of(session);
  std::size_t granularity = 0;
  check(driver().granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
        "asking for the granularity of GPU memory");
  return align_up(std::max<std::uint64_t>(bytes, 1), granularity);
}

/// Physical memory.
class Physical {
 public:
  Physical(const Session& session, std::uint64_t size, const std::string& what) {
    const CUmemAllocationProp properties = properties_of(session);
    const CUresult answer = driver().create(&handle_, size, &properties, 0);
    if (answer == CUDA_ERROR_OUT_OF_MEMORY) fail_memory(session, size, what);
    check(answer, "creating GPU memory that can be exported");
  }
  Physical(int fd, const std::string& what) {
    void* const descriptor = reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd));
    check(driver().import_handle(&handle_, descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
          fmt::format("importing the GPU memory of {}", what));
  }
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  ~Physical() { (void)driver().release(handle_); }

  [[nodiscard]] CUmemGenericAllocationHandle handle() const noexcept { return handle_; }
  [[nodiscard]] transport::UniqueFd exported() const {
    int fd = -1;
    check(driver().export_handle(&fd, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
          "exporting GPU memory as a file descriptor");
    return transport::UniqueFd(fd);
  }

 private:
  CUmemGenericAllocationHandle handle_ = 0;
};

/// Addresses without memory.
class Reservation {
 public:
  explicit Reservation(std::uint64_t size) : size_(size) {
    check(driver().reserve(&address_, size_, 0, 0, 0), "reserving GPU addresses");
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation() { (void)driver().free(address_, size_); }
  [[nodiscard]] CUdeviceptr address() const noexcept { return address_; }

 private:
  std::uint64_t size_;
  CUdeviceptr address_ = 0;
};

/// Physical memory at an address where this GPU may read and write it.
class Mapping {
 public:
  Mapping(const Session& session, const Physical& physical, std::uint64_t size)
      : reservation_(size), size_(size) {
    check(driver().map(reservation_.address(), size_, 0, physical.handle(), 0), "mapping GPU memory");
    const CUmemAccessDesc access{.location = properties_of(session).location,
                                 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const CUresult answer = driver().set_access(reservation_.address(), size_, &access, 1);
    if (answer == CUDA_SUCCESS) return;
    (void)driver().unmap(reservation_.address(), size_);
    check(answer, "allowing access to mapped GPU memory");
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { (void)driver().unmap(reservation_.address(), size_); }
  [[nodiscard]] std::byte* data() const noexcept {
    return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(reservation_.address()));
  }

 private:
  Reservation reservation_;
  std::uint64_t size_;
};

class VmmShared final : public device::Memory {
 public:
  VmmShared(SessionPtr session, std::uint64_t size, std::uint64_t bytes, const std::string& what)
      : session_(std::move(session)),
        physical_(*session_, size, what),
        mapping_(*session_, physical_, size),
        fd_(physical_.exported()) {
    bytes_ = {mapping_.data(), bytes};
  }
  VmmShared(const VmmShared&) = delete;
  VmmShared& operator=(const VmmShared&) = delete;
  ~VmmShared() override { session_->drain(); }  // cudaFree would wait, too
  Handle handle() const override { return {.token = {}, .fd = fd_.get()}; }
  MemoryPtr window(std::uint64_t, std::uint64_t) const override { fail_own_window(); }

 private:
  SessionPtr session_;
  Physical physical_;
  Mapping mapping_;
  transport::UniqueFd fd_;
};

using SharedFd = std::shared_ptr<const transport::UniqueFd>;

class VmmOpened final : public device::Memory {
 public:
  VmmOpened(SessionPtr session, SharedFd fd, std::uint64_t bytes, std::string what)
      : session_(std::move(session)),
        fd_(std::move(fd)),
        what_(std::move(what)),
        physical_(fd_->get(), what_),
        mapping_(*session_, physical_, rounded(*session_, bytes)) {
    bytes_ = {mapping_.data(), bytes};
    ++session_->handles.opened;
  }
  VmmOpened(const VmmOpened&) = delete;
  VmmOpened& operator=(const VmmOpened&) = delete;
  ~VmmOpened() override {
    session_->drain();  // work that still reads it
    ++session_->handles.closed;
  }
  Handle handle() const override { fail_sent_on(); }
  MemoryPtr window(std::uint64_t offset, std::uint64_t count) const override {
    require_inside(bytes_.size(), offset, count, what_);
    auto opened = std::make_unique<VmmOpened>(session_, fd_, bytes_.size(), what_);
    opened->bytes_ = opened->bytes_.subspan(offset, count);
    return opened;
  }

 private:
  SessionPtr session_;
  SharedFd fd_;
  std::string what_;
  Physical physical_;
  Mapping mapping_;
};

}  // namespace

MemoryPtr allocate_vmm(const SessionPtr& session, std::uint64_t bytes, const std::string& what) {
  return std::make_unique<VmmShared>(session, rounded(*session, bytes), bytes, what);
}

MemoryPtr open_vmm(const SessionPtr& session, transport::UniqueFd fd, std::uint64_t bytes,
                   const std::string& what) {
  if (!fd) fail_runtime(fmt::format("the handle of {} came without its file descriptor", what));
  return std::make_unique<VmmOpened>(session, std::make_shared<const transport::UniqueFd>(std::move(fd)),
                                     bytes, what);
}

}  // namespace refit::cuda
