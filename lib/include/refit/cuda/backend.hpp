// The backend of an NVIDIA GPU: one device, one stream.
#pragma once

#include <memory>
#include <string>

#include "refit/device/backend.hpp"

namespace refit::cuda {

/// Used, and destroyed, on the thread that made it: CUDA's current device belongs to a thread. Error(runtime)
/// with one sentence where there is no driver, an old one, no such device, or one that cannot do what is
/// chosen.
[[nodiscard]] std::unique_ptr<device::Backend> make_backend(const device::Choice& choice);

/// Whether make_backend would work; the reason is what it would say.
struct Support {
  bool yes = false;
  std::string reason;
};
/// Never throws.
[[nodiscard]] Support support(const device::Choice& choice) noexcept;

}  // namespace refit::cuda
