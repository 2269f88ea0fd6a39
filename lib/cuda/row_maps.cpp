// The cache: by address first, and by contents always.
#include "cuda/row_maps.hpp"

#include <algorithm>

#include "refit/layout/moe_shuffle.hpp"

namespace refit::cuda {

const std::uint32_t* RowMaps::stored_rows(const std::vector<std::uint32_t>& row_map) {
  Entry& entry = entry_of(row_map);
  if (entry.forward.size() == 0) entry.forward = on_device(row_map);
  return reinterpret_cast<const std::uint32_t*>(entry.forward.data());
}

const std::uint32_t* RowMaps::source_rows(const std::vector<std::uint32_t>& row_map) {
  Entry& entry = entry_of(row_map);
  if (entry.inverse.size() == 0) entry.inverse = on_device(layout::inverse(row_map));
  return reinterpret_cast<const std::uint32_t*>(entry.inverse.data());
}

RowMaps::Entry& RowMaps::entry_of(const std::vector<std::uint32_t>& row_map) {
  Entry*& seen = last_seen_[&row_map];
  if (seen != nullptr && seen->row_map == row_map) return *seen;
  const auto known = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.row_map == row_map; });
  if (known != entries_.end()) {
    seen = &*known;
  } else {
    seen = &entries_.emplace_back();
    seen->row_map = row_map;
  }
  return *seen;
}

DeviceBuffer RowMaps::on_device(const std::vector<std::uint32_t>& rows) {
  const auto bytes = std::as_bytes(std::span(rows));
  DeviceBuffer buffer(session_, bytes.size(), "a row map");
  uploads_.send_to(buffer.data(), bytes);
  return buffer;
}

}  // namespace refit::cuda
