// The data path: everything is put on one stream, and finish() alone waits for it.
#include "cuda/backend.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "cuda/check.hpp"
#include "cuda/copy_samples.hpp"
#include "cuda/grouped.hpp"
#include "cuda/memory.hpp"
#include "cuda/program.hpp"
#include "cuda/weights.hpp"
#include "refit/cuda/backend.hpp"
#include "refit/device/weights.hpp"

namespace refit::cuda {
namespace {

std::string pci_bus_id(int ordinal) {
  std::array<char, 32> id{};
  check(cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), ordinal), "asking where the GPU is");
  return id.data();
}

}  // namespace

CudaBackend::CudaBackend(SessionPtr session, device::Transport transport)
    : session_(std::move(session)),
      transport_(transport),
      nvml_(pci_bus_id(session_->gpu().ordinal)),
      uploads_(session_),
      row_maps_(session_, uploads_),
      non_finite_(session_),
      checker_(session_, uploads_, row_maps_),
      stages_(session_),
      peer_copies_(session_) {}

CudaBackend::~CudaBackend() {
  session_->drain();
}

// --- memory

std::unique_ptr<device::Memory> CudaBackend::allocate(std::uint64_t bytes, const std::string& what) {
  return transport_ == device::Transport::cuda_vmm ? allocate_vmm(session_, bytes, what)
                                                   : allocate_ipc(session_, bytes, what);
}

std::unique_ptr<device::Memory> CudaBackend::scratch(std::uint64_t bytes, const std::string& what) {
  return allocate_private(session_, bytes, what);
}

std::unique_ptr<device::Memory> CudaBackend::open(const std::string& token, transport::UniqueFd fd,
                                                  std::uint64_t bytes, const std::string& what) {
  return transport_ == device::Transport::cuda_vmm ? open_vmm(session_, std::move(fd), bytes, what)
                                                   : open_ipc(session_, token, bytes, what);
}

std::uint64_t CudaBackend::available_memory() const {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking how much GPU memory is free");
  return free;
}

// --- work

void CudaBackend::launch(const kernels::GroupedShape& shape, const std::byte* blob,
                         const NonFinite::Names& names) {
  session_->begin("running tasks");
  kernels::run_grouped(shape, blob, non_finite_.word(), non_finite_.begin_launch(names), session_->stream());
  check(cudaGetLastError(), "launching tasks");
}

void CudaBackend::run(std::span<const device::Task> tasks) {
  const Grouped grouped = build_grouped(tasks, row_maps_);
  const auto [blob] = uploads_.send(grouped.blob);
  launch(grouped.shape, blob, NonFinite::names_of(tasks));
}

std::unique_ptr<device::Program> CudaBackend::prepare(std::span<const device::Task> tasks) {
  const Grouped grouped = build_grouped(tasks, row_maps_);
  auto program = std::make_unique<Program>();
  program->shape = grouped.shape;
  program->blob = DeviceBuffer(session_, grouped.blob.size(), "a list of tasks");
  program->names = NonFinite::names_of(tasks);
  uploads_.send_to(program->blob.data(), grouped.blob);
  return program;
}

void CudaBackend::run(const device::Program& program) {
  const auto& prepared = static_cast<const Program&>(program);
  launch(prepared.shape, prepared.blob.data(), prepared.names);
}

void CudaBackend::copy(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  if (bytes == 0) return;
  session_->begin("copying within the GPU");
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, session_->stream()),
        "copying within the GPU");
}

void CudaBackend::shuffle_in_place(const device::Shuffle& what) {
  if (what.matrices == 0 || what.rows == 0 || what.row_bytes == 0) return;
  const std::uint64_t bytes = kernels::shuffle_scratch_bytes(what.rows, what.row_bytes);
  if (bytes > shuffle_scratch_.size())
    shuffle_scratch_ = DeviceBuffer(session_, bytes, "scratch of the shuffle");
  const std::uint32_t* const source_rows = row_maps_.source_rows(*what.row_map);
  session_->begin("shuffling rows");
  kernels::shuffle_in_place(what.data, what.matrices, what.rows, what.row_bytes, source_rows,
                            bytes == 0 ? nullptr : shuffle_scratch_.data(), session_->stream());
  check(cudaGetLastError(), "launching a shuffle");
}

void CudaBackend::fill(std::span<std::byte> range, std::byte value) {
  if (range.empty()) return;
  session_->begin("filling memory");
  check(cudaMemsetAsync(range.data(), std::to_integer<int>(value), range.size(), session_->stream()),
        "filling memory");
}

void CudaBackend::finish(Deadline deadline) {
  non_finite_.ask();
  peer_copies_.hold_up_stream();
  session_->wait(deadline);
  uploads_.release_large();
  non_finite_.judge();
}

void CudaBackend::read(std::span<std::byte> host, const std::byte* from) {
  session_->read(host, from);
}

void CudaBackend::write(std::byte* to, std::span<const std::byte> host) {
  session_->wait();
  if (host.empty()) return;
  session_->begin("writing to the GPU");
  check(cudaMemcpyAsync(to, host.data(), host.size(), cudaMemcpyHostToDevice, session_->stream()),
        "writing to the GPU");
  session_->wait();
}

void CudaBackend::delay(double seconds) {
  session_->begin("the delay that was asked for");
  kernels::delay(static_cast<std::uint64_t>(std::llround(std::max(seconds, 0.0) * 1e9)), session_->stream());
  check(cudaGetLastError(), "launching a delay");
}

// --- weights

void CudaBackend::fill_weights(std::span<const device::WeightBox> boxes, std::uint64_t seed) {
  const Work<kernels::Weights> work =
      weights_of(boxes, [seed](const TensorSpec& tensor) { return device::weight_key(seed, tensor); });
  const auto [items, tiles] = uploads_.send(work.items, work.tiles);
  session_->begin("filling weights");
  kernels::fill_weights(items, tiles, work.tile_count(), session_->stream());
  check(cudaGetLastError(), "launching the first weights");
}

void CudaBackend::update_weights(std::span<const device::WeightBox> boxes, std::uint64_t seed,
                                 std::uint64_t step) {
  const Work<kernels::Weights> work = weights_of(
      boxes, [seed, step](const TensorSpec& tensor) { return device::update_key(seed, tensor, step); });
  const auto [items, tiles] = uploads_.send(work.items, work.tiles);
  session_->begin("updating weights");
  kernels::update_weights(items, tiles, work.tile_count(), session_->stream());
  check(cudaGetLastError(), "launching an update of weights");
}

// --- measuring

device::CopySamples CudaBackend::measure_copy(std::span<const std::byte> from, std::span<std::byte> to) {
  return cuda::measure_copy(session_, from, to);
}

Moves& CudaBackend::moves() {
  if (!moves_) moves_.emplace(session_);
  return *moves_;
}

device::Description CudaBackend::describe() const {
  const cudaDeviceProp& gpu = session_->gpu().properties;
  device::Description description;
  description.name = gpu.name;
  description.compute_capability = std::to_string(gpu.major) + "." + std::to_string(gpu.minor);
  description.memory_bytes = gpu.totalGlobalMem;
  description.multiprocessors = static_cast<std::uint64_t>(gpu.multiProcessorCount);
  description.l2_bytes = static_cast<std::uint64_t>(gpu.l2CacheSize);
  description.driver = nvml_.driver_version();
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "asking for the version of the CUDA runtime");
  description.runtime = version_text(runtime);
  return description;
}

// --- making one

std::unique_ptr<device::Backend> make_backend(const device::Choice& choice) {
  return std::make_unique<CudaBackend>(
      std::make_shared<Session>(open_gpu(choice), std::chrono::duration<double>(choice.timeout_s)),
      choice.transport);
}

Support support(const device::Choice& choice) noexcept {
  try {
    (void)open_gpu(choice);
    return {.yes = true, .reason = {}};
  } catch (const std::exception& error) {
    return {.yes = false, .reason = error.what()};
  }
}

}  // namespace refit::cuda
