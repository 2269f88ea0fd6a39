// mmap, and the signal handler that outlives a truncated file.
// The handler follows wayland-shm.c of libwayland (sigbus_handler, reraise_sigbus), which has to survive
// clients that shrink their buffers.
#include "checkpoint/mapping.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <mutex>
#include <system_error>

#include "base/file.hpp"
#include "refit/base/error.hpp"

namespace refit::checkpoint {

struct FaultRange::Node {
  std::atomic<bool> taken = true, faulted = false;
  std::atomic<std::uintptr_t> begin = 0, end = 0;  // begin is 0 while the node guards nothing
  Node* next = nullptr;
};

namespace {

static_assert(std::atomic<FaultRange::Node*>::is_always_lock_free &&
                  std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "a signal handler uses them");

std::atomic<FaultRange::Node*> nodes = nullptr;
struct sigaction action_before;
std::uintptr_t page_bytes;

FaultRange::Node* node_around(std::uintptr_t address) noexcept {
  for (FaultRange::Node* node = nodes.load(); node != nullptr; node = node->next) {
    const std::uintptr_t begin = node->begin.load();
    if (begin != 0 && address >= begin && address < node->end.load() && node->begin.load() == begin) {
      return node;
    }
  }
  return nullptr;
}

/// Zeros from the page of `address` to the end of its range: what follows a page that is gone is gone too.
bool put_zeros(std::uintptr_t address) noexcept {
  FaultRange::Node* const node = node_around(address);
  if (node == nullptr) return false;
  const std::uintptr_t page = address / page_bytes * page_bytes;
  node->faulted = true;
  return ::mmap(reinterpret_cast<void*>(page), node->end - page, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

void on_bus_error(int signal, siginfo_t* info, void*) {
  const int error = errno;
  const bool is_fault = info->si_code > 0;  // and not sent by somebody
  if (!is_fault || !put_zeros(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    ::sigaction(SIGBUS, &action_before, nullptr);
    if (!is_fault) ::raise(signal);  // a fault comes again by itself
  }
  errno = error;
}

void install_handler() {
  page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGBUS, nullptr, &action_before);
  ::sigaction(SIGBUS, &action, nullptr);
}

FaultRange::Node* take_node() {
  for (FaultRange::Node* node = nodes.load(); node != nullptr; node = node->next) {
    if (!node->taken.exchange(true)) return node;
  }
  auto* const node = new FaultRange::Node;
  node->next = nodes.load();
  while (!nodes.compare_exchange_weak(node->next, node)) {
  }
  return node;
}

}  // namespace

FaultRange::~FaultRange() {
  release();
}

void FaultRange::guard(std::span<const std::byte> bytes) {
  static std::once_flag installed;
  std::call_once(installed, install_handler);
  release();
  node_ = take_node();
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  node_->faulted = false;
  // mmap rounds up to whole pages, and all of them belong to the file.
  node_->end = (begin + bytes.size() + page_bytes - 1) / page_bytes * page_bytes;
  node_->begin = begin;
}

void FaultRange::release() noexcept {
  if (node_ == nullptr) return;
  node_->begin = 0;
  node_->taken = false;
  node_ = nullptr;
}

bool FaultRange::has_faulted() const noexcept {
  return node_ != nullptr && node_->faulted;
}

Mapping::Mapping(const std::string& path) : path_(path) {
  const ReadableFile file(path);
  opened_ = file.status();
  size_ = static_cast<std::size_t>(file.size());
  if (size_ == 0) return;  // mmap refuses a length of 0
  void* const address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (address == MAP_FAILED)
    fail_errno(path, fmt::format("cannot map the {} bytes of the file", size_), errno);
  data_ = static_cast<const std::byte*>(address);
  range_.guard(bytes());
}

Mapping::~Mapping() {
  range_.release();
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void Mapping::check_unchanged() const {
  struct stat now {};
  if (::stat(path_.c_str(), &now) != 0) {
    fail_runtime(
        fmt::format("{}: was removed while it was read: {}", path_, std::generic_category().message(errno)));
  }
  if (now.st_dev != opened_.st_dev || now.st_ino != opened_.st_ino) {
    fail_runtime(fmt::format("{}: was replaced by another file while it was read", path_));
  }
  if (now.st_size < opened_.st_size) {
    fail_runtime(fmt::format("{}: became shorter while it was read: it had {} bytes and has {}", path_,
                             opened_.st_size, now.st_size));
  }
  const bool same_time =
      now.st_mtim.tv_sec == opened_.st_mtim.tv_sec && now.st_mtim.tv_nsec == opened_.st_mtim.tv_nsec;
  if (now.st_size != opened_.st_size || !same_time || range_.has_faulted()) {
    fail_runtime(fmt::format("{}: changed while it was read", path_));
  }
}

}  // namespace refit::checkpoint
