// Row maps on the GPU: each is copied there once.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "cuda/buffers.hpp"
#include "cuda/grouped.hpp"
#include "cuda/uploads.hpp"

namespace refit::cuda {

/// A map is known by its contents: a vector may go, and another one come to its address.
class RowMaps final : public DeviceMaps {
 public:
  RowMaps(SessionPtr session, Uploads& uploads) : session_(std::move(session)), uploads_(uploads) {}

  /// Canonical row -> stored row, as it is.
  [[nodiscard]] const std::uint32_t* stored_rows(const std::vector<std::uint32_t>& row_map);
  /// Its inverse: stored row -> canonical row.
  const std::uint32_t* source_rows(const std::vector<std::uint32_t>& row_map) override;

 private:
  struct Entry {
    std::vector<std::uint32_t> row_map;
    DeviceBuffer forward, inverse;
  };
  [[nodiscard]] Entry& entry_of(const std::vector<std::uint32_t>& row_map);
  [[nodiscard]] DeviceBuffer on_device(const std::vector<std::uint32_t>& rows);

  SessionPtr session_;
  Uploads& uploads_;
  std::list<Entry> entries_;
  std::unordered_map<const std::vector<std::uint32_t>*, Entry*> last_seen_;
};

}  // namespace refit::cuda
