// Where the layout module's references put the rows and scales of a matrix, as tables on the GPU.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "cuda/buffers.hpp"
#include "cuda/uploads.hpp"
#include "refit/plan/plan.hpp"

namespace refit::cuda {

/// Learned by running a reference on bytes that say where they come from.
struct ReferenceTable {
  std::vector<std::uint32_t> stored_rows;  ///< canonical -> stored row; empty: itself
  std::uint64_t scale_bytes = 0;           ///< of one matrix, padding included
  std::uint64_t padding = 0;               ///< places in it that belong to no row or column
  /// Whether every scale is where plan::scale_offset has it for its row's reference place.
  bool closed = false;

  DeviceBuffer device_rows, device_places, device_padding;  ///< std::uint32_t each; empty: not needed
};

class ReferenceTables {
 public:
  ReferenceTables(SessionPtr session, Uploads& uploads) : session_(std::move(session)), uploads_(uploads) {}

  /// For matrices of a quantized weight of the plan.
  [[nodiscard]] const ReferenceTable& of(const plan::Plan& plan, const plan::Destination& weight);
  /// Any table, on the GPU.
  [[nodiscard]] DeviceBuffer upload(const std::vector<std::uint32_t>& table);

 private:
  /// Rows, scale columns, gated, shuffled, tiled.
  using Key = std::tuple<std::uint64_t, std::uint64_t, bool, bool, bool>;
  [[nodiscard]] ReferenceTable make(const Key& key, const plan::Destination& scale);

  SessionPtr session_;
  Uploads& uploads_;
  std::map<Key, ReferenceTable> tables_;
};

/// The table in a buffer; null when it is empty.
[[nodiscard]] inline const std::uint32_t* table_in(const DeviceBuffer& buffer) noexcept {
  return reinterpret_cast<const std::uint32_t*>(buffer.data());
}

}  // namespace refit::cuda
