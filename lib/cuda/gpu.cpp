// From "no driver" to "no handles": each reason has its own sentence.
#include "cuda/gpu.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "cuda/check.hpp"
#include "cuda/driver.hpp"
#include "refit/base/error.hpp"

namespace refit::cuda {
namespace {

constexpr int kLeastMajor = 8;

std::string visible_devices() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? "" : fmt::format(" (CUDA_VISIBLE_DEVICES is '{}')", visible);
}

/// Without a driver, and with one that is too old, the runtime says the same.
[[noreturn]] void fail_driver() {
  int version = 0;
  (void)cudaDriverGetVersion(&version);
  if (version == 0) fail_runtime("no NVIDIA driver found, so no GPU can be used");
  fail_runtime(fmt::format("the NVIDIA driver supports CUDA {} and is older than CUDA {} needs",
                           version_text(version), version_text(CUDART_VERSION)));
}

int count_devices() {
  int count = 0;
  const cudaError_t answer = cudaGetDeviceCount(&count);
  if (answer == cudaErrorInsufficientDriver) fail_driver();
  if (answer == cudaErrorNoDevice || (answer == cudaSuccess && count == 0)) {
    fail_runtime(fmt::format("there is an NVIDIA driver, but no GPU is visible{}", visible_devices()));
  }
  check(answer, "looking for GPUs");
  return count;
}

void require_vmm(const Gpu& gpu) {
  CUdevice device{};
  check(driver().device(&device, gpu.ordinal), "asking the driver for the GPU");
  for (const auto attribute : {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                               CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED}) {
    int supported = 0;
    check(driver().attribute(&supported, attribute, device), "asking what memory handles the GPU supports");
    if (supported == 0) {
      fail_runtime(fmt::format(
          "{} cannot export memory as a file descriptor here; transport cuda-ipc may work", gpu.name()));
    }
  }
}

/// Nothing but trying says whether a container or a MIG slice lets handles out.
void require_ipc(const Gpu& gpu) {
  void* data = nullptr;
  check(cudaMalloc(&data, 1), "allocating a byte to try CUDA IPC with");
  cudaIpcMemHandle_t handle;
  const cudaError_t answer = cudaIpcGetMemHandle(&handle, data);
  (void)cudaFree(data);
  if (answer == cudaSuccess) return;
  (void)cudaGetLastError();
  fail_runtime(fmt::format("{} gives out no CUDA IPC handles here ({}{}); transport cuda-vmm may work",
                           gpu.name(), cudaGetErrorName(answer),
                           gpu.is_mig_slice() ? ", and it is a MIG slice" : ""));
}

void require_transport(const Gpu& gpu, device::Transport transport) {
  switch (transport) {
    case device::Transport::cuda_ipc:
      return require_ipc(gpu);
    case device::Transport::cuda_vmm:
      return require_vmm(gpu);
    case device::Transport::shm:
      fail_input("a GPU's memory is shared by transport cuda-ipc or cuda-vmm, not by shm");
  }
}

}  // namespace

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Gpu open_gpu(const device::Choice& choice) {
  const int count = count_devices();
  if (choice.ordinal < 0 || choice.ordinal >= count) {
    fail_runtime(fmt::format("GPU {} was asked for, and {} visible, numbered from 0{}", choice.ordinal,
                             count == 1 ? "1 is" : fmt::format("{} are", count), visible_devices()));
  }
  Gpu gpu{.ordinal = choice.ordinal};
  check(cudaGetDeviceProperties(&gpu.properties, choice.ordinal), "reading the GPU's properties");
  if (gpu.properties.major < kLeastMajor) {
    fail_runtime(fmt::format("{} has compute capability {}.{}, and {}.0 is the least that is supported",
                             gpu.name(), gpu.properties.major, gpu.properties.minor, kLeastMajor));
  }
  check(cudaSetDevice(choice.ordinal), "opening the GPU");
  require_transport(gpu, choice.transport);
  return gpu;
}

}  // namespace refit::cuda
