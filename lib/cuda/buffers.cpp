// Allocation with a helpful refusal; everything else is one call each.
#include "cuda/buffers.hpp"

#include <fmt/format.h>

#include "cuda/check.hpp"
#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"

namespace refit::cuda {

void fail_memory(const Session& session, std::uint64_t bytes, const std::string& what) {
  (void)cudaGetLastError();
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking how much GPU memory is free");
  fail_runtime(
      fmt::format("{}: asked for {}, {} of {} free on {}; make the replay smaller (--layers, "
                  "--experts, --memory-budget) or buffer_size smaller",
                  what, format_bytes(bytes), format_bytes(free), format_bytes(total), session.gpu().name()));
}

std::byte* allocate_device(const Session& session, std::uint64_t bytes, const std::string& what) {
  if (bytes == 0) return nullptr;
  void* data = nullptr;
  const cudaError_t answer = cudaMalloc(&data, bytes);
  if (answer == cudaErrorMemoryAllocation) fail_memory(session, bytes, what);
  check(answer, "allocating GPU memory");
  return static_cast<std::byte*>(data);
}

void free_device(const Session& session, void* data) noexcept {
  if (!session.gave_up()) (void)cudaFree(data);
}

DeviceBuffer::DeviceBuffer(const SessionPtr& session, std::uint64_t bytes, const std::string& what)
    : session_(session), data_(allocate_device(*session, bytes, what)), bytes_(bytes) {
  session_->own_bytes += bytes_;
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  DeviceBuffer old(std::move(other));
  std::swap(session_, old.session_);
  std::swap(data_, old.data_);
  std::swap(bytes_, old.bytes_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ == nullptr) return;
  free_device(*session_, data_);
  session_->own_bytes -= bytes_;
}

PinnedBuffer::PinnedBuffer(std::uint64_t bytes, const std::string& what) {
  void* data = nullptr;
  const cudaError_t answer = cudaMallocHost(&data, bytes);
  if (answer == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    fail_runtime(fmt::format("{}: {} of host memory could not be page-locked", what, format_bytes(bytes)));
  }
  check(answer, "page-locking host memory");
  bytes_ = {static_cast<std::byte*>(data), bytes};
}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  PinnedBuffer old(std::move(other));
  std::swap(bytes_, old.bytes_);
  return *this;
}

PinnedBuffer::~PinnedBuffer() {
  if (!bytes_.empty()) (void)cudaFreeHost(bytes_.data());
}

Event::Event(Timing timing) {
  check(cudaEventCreateWithFlags(&event_, timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming),
        "creating an event");
}

Event& Event::operator=(Event&& other) noexcept {
  Event old(std::move(other));
  std::swap(event_, old.event_);
  return *this;
}

Event::~Event() {
  if (event_ != nullptr) (void)cudaEventDestroy(event_);
}

void Event::record(cudaStream_t stream) {
  check(cudaEventRecord(event_, stream), "recording an event");
}

bool Event::done() const {
  const cudaError_t answer = cudaEventQuery(event_);
  if (answer == cudaErrorNotReady) {
    (void)cudaGetLastError();  // would look like the next launch's fault
    return false;
  }
  check(answer, "asking for an event");
  return true;
}

double Event::seconds(const Event& from, const Event& to) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, from.event_, to.event_), "reading the time between two events");
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace refit::cuda
