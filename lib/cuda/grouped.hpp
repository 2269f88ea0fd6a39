// Tasks as the grouped kernel takes them: contiguous ones become flat streams, the others matrices of stored
// rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/grouped.hpp"
#include "refit/device/task.hpp"

namespace refit::cuda {

/// Where row maps are on the GPU.
class DeviceMaps {
 public:
  virtual ~DeviceMaps() = default;
  /// Device address of the inverse map, stored row -> canonical row. It holds as long as the work that is
  /// built with it.
  virtual const std::uint32_t* source_rows(const std::vector<std::uint32_t>& row_map) = 0;
};

struct Grouped {
  std::vector<std::byte>
      blob;  ///< everything that the kernel reads, for one upload; empty if there is no work
  kernels::GroupedShape shape;
};

/// Tasks that fill the same matrix through the same map become one unit. Error(input) naming the tensor for
/// more rows or columns than the kernel counts.
[[nodiscard]] Grouped build_grouped(std::span<const device::Task> tasks, DeviceMaps& maps);

}  // namespace refit::cuda
