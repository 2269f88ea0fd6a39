// Looking the driver's calls up through the runtime.
#include "cuda/driver.hpp"

#include <fmt/format.h>

#include "cuda/check.hpp"
#include "refit/base/error.hpp"

namespace refit::cuda {
namespace {

/// The calls' form as of CUDA 12.0, which every one of them has had since before.
constexpr unsigned kVersion = 12000;

template <typename Function>
void look_up(Function& function, const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion(name, &address, kVersion, cudaEnableDefault, &found),
        "looking up a call of the NVIDIA driver");
  if (found != cudaDriverEntryPointSuccess || address == nullptr) {
    fail_runtime(fmt::format("the installed NVIDIA driver has no {}", name));
  }
  function = reinterpret_cast<Function>(address);
}

Driver look_up_all() {
  Driver driver;
  look_up(driver.error_name, "cuGetErrorName");
  look_up(driver.error_string, "cuGetErrorString");
  look_up(driver.device, "cuDeviceGet");
  look_up(driver.attribute, "cuDeviceGetAttribute");
  look_up(driver.granularity, "cuMemGetAllocationGranularity");
  look_up(driver.create, "cuMemCreate");
  look_up(driver.release, "cuMemRelease");
  look_up(driver.reserve, "cuMemAddressReserve");
  look_up(driver.free, "cuMemAddressFree");
  look_up(driver.map, "cuMemMap");
  look_up(driver.unmap, "cuMemUnmap");
  look_up(driver.set_access, "cuMemSetAccess");
  look_up(driver.export_handle, "cuMemExportToShareableHandle");
  look_up(driver.import_handle, "cuMemImportFromShareableHandle");
  return driver;
}

}  // namespace

const Driver& driver() {
  static const Driver found = look_up_all();
  return found;
}

}  // namespace refit::cuda
