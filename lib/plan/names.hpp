// The one spelling of every enumerator that people type or a manifest carries.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "refit/plan/plan.hpp"
#include "refit/plan/switches.hpp"

namespace refit::plan::names {

template <class Value>
struct Named {
  Value value;
  std::string_view name;
};

inline constexpr std::array on_off{Named{true, "on"}, Named{false, "off"}};
inline constexpr std::array pipeline{Named{Pipeline::staged, "staged"}, Named{Pipeline::direct, "direct"}};
inline constexpr std::array quantize{Named{Quantize::per_tensor, "per-tensor"},
                                     Named{Quantize::batched, "batched"},
                                     Named{Quantize::per_bucket, "per-bucket"}};
inline constexpr std::array metadata{Named{Metadata::offset_map, "offset-map"},
                                     Named{Metadata::key_list, "key-list"}};
inline constexpr std::array handle_encoding{Named{HandleEncoding::with_function, "with-function"},
                                            Named{HandleEncoding::arguments_only, "arguments-only"}};
inline constexpr std::array handles{Named{Handles::per_tensor, "per-tensor"},
                                    Named{Handles::per_bucket, "per-bucket"}};
inline constexpr std::array ipc_buffers{Named{IpcBuffers::per_refit, "per-refit"},
                                        Named{IpcBuffers::persistent, "persistent"}};
inline constexpr std::array loader{Named{Loader::lookup, "lookup"}, Named{Loader::cached, "cached"}};
inline constexpr std::array shuffle{Named{Shuffle::per_expert, "per-expert"},
                                    Named{Shuffle::batched, "batched"}, Named{Shuffle::fused, "fused"}};
inline constexpr std::array offload{Named{Offload::full, "full"}, Named{Offload::slim, "slim"}};
inline constexpr std::array reference_swap{Named{ReferenceSwap::pageable, "pageable"},
                                           Named{ReferenceSwap::pinned, "pinned"}};
inline constexpr std::array router_bias{Named{RouterBias::fp32, "fp32"}, Named{RouterBias::bf16, "bf16"}};
inline constexpr std::array commit{Named{Commit::in_place, "in-place"}, Named{Commit::shadow, "shadow"}};
inline constexpr std::array zero_scale{Named{quant::ZeroScale::keep, "keep"},
                                       Named{quant::ZeroScale::one, "one"}};
inline constexpr std::array non_finite{Named{quant::NonFinite::refuse, "refuse"},
                                       Named{quant::NonFinite::as_producer, "as-producer"}};
inline constexpr std::array moe_layout{Named{MoeLayout::flashinfer_trtllm, "flashinfer-trtllm"},
                                       Named{MoeLayout::checkpoint, "checkpoint"}};

template <class Table, class Value>
[[nodiscard]] constexpr std::string_view of(const Table& table, Value value) noexcept {
  for (const auto& row : table) {
    if (row.value == value) return row.name;
  }
  return "unknown";
}

template <class Value, std::size_t size>
[[nodiscard]] constexpr std::optional<Value> parse(const std::array<Named<Value>, size>& table,
                                                   std::string_view name) noexcept {
  for (const auto& row : table) {
    if (row.name == name) return row.value;
  }
  return std::nullopt;
}

/// "staged or direct".
template <class Table>
[[nodiscard]] std::string list(const Table& table) {
  std::string text;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (i > 0) text += i + 1 == table.size() ? " or " : ", ";
    text += table[i].name;
  }
  return text;
}

}  // namespace refit::plan::names
