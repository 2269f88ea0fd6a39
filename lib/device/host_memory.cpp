// A window maps the pages that a tensor lies in once more, as opening a tensor's own handle does.
#include "device/host_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "refit/base/error.hpp"

namespace refit::device {
namespace {

[[noreturn]] void fail_window() {
  fail_runtime("a window was asked of memory that no peer allocated");
}

class Shared final : public Memory {
 public:
  explicit Shared(transport::SharedMemory memory) : memory_(std::move(memory)) { bytes_ = memory_.bytes(); }
  Handle handle() const override { return {{}, memory_.fd()}; }
  std::unique_ptr<Memory> window(std::uint64_t, std::uint64_t) const override { fail_window(); }

 private:
  transport::SharedMemory memory_;
};

class Private final : public Memory {
 public:
  explicit Private(std::uint64_t bytes) : data_(bytes) { bytes_ = data_; }
  Handle handle() const override { fail_runtime("memory of one process was to be sent to another"); }
  std::unique_ptr<Memory> window(std::uint64_t, std::uint64_t) const override { fail_window(); }

 private:
  std::vector<std::byte> data_;
};

class Window final : public Memory {
 public:
  Window(int fd, std::uint64_t offset, std::uint64_t count, HandleCounts& counts) : counts_(counts) {
    static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const std::uint64_t begin = offset / page * page;
    mapped_ = std::max<std::size_t>(1, offset - begin + count);
    base_ = ::mmap(nullptr, mapped_, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(begin));
    if (base_ == MAP_FAILED) {
      fail_runtime(fmt::format("opening a tensor's handle failed: mmap of {} bytes: {}", mapped_,
                               std::strerror(errno)));
    }
    bytes_ = {static_cast<std::byte*>(base_) + (offset - begin), count};
    ++counts_.opened;
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window() override {
    ::munmap(base_, mapped_);
    ++counts_.closed;
  }
  Handle handle() const override { fail_runtime("a peer's memory was to be sent on"); }
  std::unique_ptr<Memory> window(std::uint64_t, std::uint64_t) const override { fail_window(); }

 private:
  HandleCounts& counts_;
  void* base_ = nullptr;
  std::size_t mapped_ = 0;
};

class Opened final : public Memory {
 public:
  Opened(transport::SharedMemory memory, HandleCounts& counts) : memory_(std::move(memory)), counts_(counts) {
    bytes_ = memory_.bytes();
    ++counts_.opened;
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() override { ++counts_.closed; }
  Handle handle() const override { fail_runtime("a peer's memory was to be sent on"); }
  std::unique_ptr<Memory> window(std::uint64_t offset, std::uint64_t count) const override {
    return std::make_unique<Window>(memory_.fd(), offset, count, counts_);
  }

 private:
  transport::SharedMemory memory_;
  HandleCounts& counts_;
};

}  // namespace

std::unique_ptr<Memory> allocate_host(std::uint64_t bytes, const std::string& what) {
  return std::make_unique<Shared>(transport::SharedMemory::create(bytes, what));
}

std::unique_ptr<Memory> scratch_host(std::uint64_t bytes) {
  return std::make_unique<Private>(bytes);
}

std::unique_ptr<Memory> open_host(transport::UniqueFd fd, std::uint64_t bytes, const std::string& what,
                                  HandleCounts& counts) {
  return std::make_unique<Opened>(transport::SharedMemory::map(std::move(fd), bytes, what), counts);
}

}  // namespace refit::device
