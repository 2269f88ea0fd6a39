// One pass over the tasks makes units and their parts, one over the units lays out the blob.
#include "cuda/grouped.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "cuda/kernel_enums.hpp"
#include "quant/constants.hpp"
#include "refit/base/bytes.hpp"
#include "refit/base/error.hpp"

namespace refit::cuda {
namespace {

using device::Op;
using device::Task;
using kernels::Change;
using kernels::Unit;
using kernels::UnitKind;
using kernels::UnitPart;

constexpr std::uint64_t kSectionAlignment = 256;
/// The kernel adds a row of a tile times the width in 32 bits.
constexpr std::uint64_t kMaxWidth = 1 << 25;
constexpr std::uint64_t kMaxRows = std::uint64_t{1} << 31;
constexpr std::uint64_t kMaxTiles = std::numeric_limits<std::int32_t>::max();

bool aligned(const void* address, std::uint64_t to) {
  return reinterpret_cast<std::uintptr_t>(address) % to == 0;
}

constexpr std::uint64_t divided_up(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

/// What a task moves, whatever its operation is called.
struct Shape {
  bool quantizes = false;
  bool tiles_scales = false;  ///< scales or zeros, into 128x4 tiles
  std::byte* to = nullptr;
  std::uint64_t width = 0;   ///< that moves of a row: bytes, elements, or scale columns
  std::uint64_t stride = 0;  ///< between source rows
  std::uint64_t pitch = 0;   ///< between stored rows, counted as width is
  Change change = Change::none;

  explicit Shape(const Task& task)
      : quantizes(task.op == Op::quantize),
        to(task.values),
        width(task.cols),
        stride(task.row_bytes),
        pitch(task.stored_cols()) {
    std::uint64_t first = task.to_col;
    switch (task.op) {
      case Op::quantize:
      case Op::copy:
        break;
      case Op::round_bf16:
        change = Change::round_bf16;
        width *= sizeof(float);
        pitch *= sizeof(float);
        first *= sizeof(float);
        break;
      case Op::zero:
        change = Change::zero;
        stride = width;
        [[fallthrough]];
      case Op::scales:
        to = task.scales;
        tiles_scales = task.scale_layout == plan::ScaleLayout::tiled_128x4;
        break;
    }
    if (!tiles_scales) to += first;
  }

  [[nodiscard]] UnitKind flat_kind() const noexcept {
    return quantizes ? UnitKind::flat_quantize : UnitKind::flat_bytes;
  }
  [[nodiscard]] UnitKind rows_kind() const noexcept {
    if (tiles_scales) return UnitKind::rows_scales;
    return quantizes ? UnitKind::rows_quantize : UnitKind::rows_bytes;
  }
  /// Whether rows follow each other on both sides.
  [[nodiscard]] bool is_flat(const Task& task) const noexcept {
    const bool scales_follow =
        quantizes ? task.scale_layout != plan::ScaleLayout::tiled_128x4 : !tiles_scales;
    return task.row_map == nullptr && scales_follow && stride == width * (quantizes ? 2 : 1) &&
           pitch == width;
  }
};

std::uint64_t column_tile(UnitKind kind) {
  switch (kind) {
    case UnitKind::rows_scales:
      return kernels::kTileScales;
    case UnitKind::rows_quantize:
      return kernels::kTileElements;
    default:
      return kernels::kTileBytes;
  }
}

std::uint64_t tiles_of(const Unit& unit) {
  switch (unit.kind) {
    case UnitKind::flat_bytes:
      return divided_up(unit.size, kernels::kFlatBytes);
    case UnitKind::flat_quantize:
      return divided_up(unit.size, kernels::kFlatElements);
    default:
      return divided_up(unit.end_row - unit.first_row, kernels::kTileRows) * unit.column_tiles;
  }
}

kernels::QuantRule rule_of(const quant::Options& options) {
  const quant::Constants constants = quant::constants_of(options);
  kernels::QuantRule rule;
  rule.add = constants.add;
  rule.subtract = constants.subtract;
  rule.first = constants.first;
  rule.range = constants.last_after_first;
  rule.at_least = static_cast<std::uint8_t>(constants.at_least);
  rule.rounding = kernel_enum(options.rounding);
  rule.zero_scale = kernel_enum(options.zero_scale);
  rule.refuses_non_finite = options.non_finite == quant::NonFinite::refuse;
  return rule;
}

bool fill_the_same_matrix(const Task& a, const Task& b) {
  return a.op == b.op && a.values == b.values && a.scales == b.scales && a.row_map == b.row_map &&
         a.cols == b.cols && a.row_bytes == b.row_bytes && a.to_col == b.to_col && a.to_cols == b.to_cols &&
         a.scale_layout == b.scale_layout && a.options == b.options;
}

class Builder {
 public:
  Builder(std::span<const Task> tasks, DeviceMaps& maps) : tasks_(tasks), maps_(maps) {
    units_.reserve(tasks.size());
  }

  Grouped build() {
    for (std::uint32_t i = 0; i < tasks_.size(); ++i) add(i);
    return lay_out();
  }

 private:
  struct PartOfUnit {
    std::uint32_t unit;
    UnitPart part;
  };

  void add(std::uint32_t index) {
    const Task& task = tasks_[index];
    const Shape shape(task);
    if (task.rows == 0 || shape.width == 0) return;
    if (shape.is_flat(task)) return add_flat(index, shape);
    check_counts(task, shape);
    Unit& unit = task.row_map == nullptr ? add_rows(index, shape) : unit_of_matrix(index, shape);
    add_part(unit, index, shape);
  }

  /// What both forms have.
  Unit& add_unit(std::uint32_t index, const Shape& shape) {
    const Task& task = tasks_[index];
    Unit& unit = units_.emplace_back();
    unit.values = shape.to;
    unit.scales = task.scales;
    unit.change = shape.change;
    unit.scale_layout = kernel_enum(task.scale_layout);
    unit.task = index;
    if (shape.quantizes) unit.rule = rule_of(task.options);
    return unit;
  }

  void add_flat(std::uint32_t index, const Shape& shape) {
    const Task& task = tasks_[index];
    Unit& unit = add_unit(index, shape);
    unit.kind = shape.flat_kind();
    unit.from = task.from;
    unit.values += task.row_begin * shape.width;
    unit.size = task.rows * shape.width;
    if (shape.quantizes) {
      unit.scales += task.row_begin * (shape.width / quant::kBlock);
      unit.wide = aligned(unit.from, 16) && aligned(unit.values, 8);
      unit.scale_words = aligned(unit.scales, 4);
    } else {
      unit.wide = shape.change == Change::none && aligned(unit.from, 16) && aligned(unit.values, 16) &&
                  unit.size % 16 == 0;
    }
  }

  static void check_counts(const Task& task, const Shape& shape) {
    const std::uint64_t stored_rows = task.row_map == nullptr ? 0 : task.row_map->size();
    if (shape.pitch <= kMaxWidth && std::max(task.row_begin + task.rows, stored_rows) <= kMaxRows) return;
    fail_input(fmt::format(
        "Tensor {} has rows {} to {} of width {}; the GPU lays out at most {} rows of width {} at a time.",
        task.tensor == nullptr ? "without a name" : *task.tensor, task.row_begin, task.row_begin + task.rows,
        shape.pitch, kMaxRows, kMaxWidth));
  }

  Unit& add_rows(std::uint32_t index, const Shape& shape) {
    const Task& task = tasks_[index];
    Unit& unit = add_unit(index, shape);
    unit.kind = shape.rows_kind();
    unit.width = static_cast<std::uint32_t>(shape.width);
    unit.pitch = static_cast<std::uint32_t>(shape.pitch);
    unit.stride = shape.stride;
    unit.column_tiles = static_cast<std::uint32_t>(divided_up(shape.width, column_tile(unit.kind)));
    if (task.row_map == nullptr) {
      unit.first_row = static_cast<std::uint32_t>(task.row_begin / kernels::kTileRows * kernels::kTileRows);
      unit.end_row = static_cast<std::uint32_t>(task.row_begin + task.rows);
    } else {
      unit.source_rows = source_rows(*task.row_map);
      unit.end_row = static_cast<std::uint32_t>(task.row_map->size());
    }
    const std::uint64_t per_scale = shape.quantizes ? quant::kBlock : 1;
    unit.scale_cols = static_cast<std::uint32_t>(shape.pitch / per_scale);
    unit.scale_col = static_cast<std::uint32_t>(task.to_col / per_scale);
    const bool tiled = task.scale_layout == plan::ScaleLayout::tiled_128x4;
    unit.scale_words =
        aligned(unit.scales, 4) && unit.scale_col % 4 == 0 && (tiled || unit.scale_cols % 4 == 0);
    switch (unit.kind) {
      case UnitKind::rows_quantize:
        unit.wide = aligned(unit.values, 8) && shape.stride % 16 == 0 && shape.pitch % 8 == 0;
        break;
      case UnitKind::rows_scales:
        unit.wide = shape.width % 4 == 0 && shape.stride % 4 == 0;
        break;
      default:
        unit.wide = shape.change == Change::none && aligned(unit.values, 16) && shape.width % 16 == 0 &&
                    shape.stride % 16 == 0 && shape.pitch % 16 == 0;
    }
    return unit;
  }

  void add_part(Unit& unit, std::uint32_t index, const Shape& shape) {
    const Task& task = tasks_[index];
    // Zeros have no source, but a row without one stays as it is.
    const std::byte* const from = shape.change == Change::zero ? shape.to : task.from;
    unit.wide = unit.wide && aligned(from, unit.kind == UnitKind::rows_scales ? 4 : 16);
    ++unit.parts;
    parts_.push_back(
        {static_cast<std::uint32_t>(&unit - units_.data()),
         {from, static_cast<std::uint32_t>(task.row_begin), static_cast<std::uint32_t>(task.rows), index}});
  }

  /// The unit of the task's matrix, which is made at its first task. Tasks of a matrix are often neighbours.
  Unit& unit_of_matrix(std::uint32_t index, const Shape& shape) {
    const Task& task = tasks_[index];
    if (last_matrix_ != kNone && fill_the_same_matrix(tasks_[units_[last_matrix_].task], task)) {
      return units_[last_matrix_];
    }
    if (slots_.empty()) slots_.resize(std::bit_ceil(2 * tasks_.size()), kNone);
    const std::uint64_t hash = (reinterpret_cast<std::uintptr_t>(shape.to) >> 4) * 0x9E3779B97F4A7C15;
    std::size_t slot = hash >> (64 - std::countr_zero(slots_.size()));
    while (slots_[slot] != kNone && !fill_the_same_matrix(tasks_[units_[slots_[slot]].task], task)) {
      slot = (slot + 1) % slots_.size();
    }
    if (slots_[slot] == kNone) {
      slots_[slot] = static_cast<std::uint32_t>(units_.size());
      add_rows(index, shape);
    }
    last_matrix_ = slots_[slot];
    return units_[last_matrix_];
  }

  /// A plan has a handful of maps.
  const std::uint32_t* source_rows(const std::vector<std::uint32_t>& row_map) {
    const auto known = std::find_if(known_maps_.begin(), known_maps_.end(),
                                    [&](const auto& entry) { return entry.first == &row_map; });
    if (known != known_maps_.end()) return known->second;
    return known_maps_.emplace_back(&row_map, maps_.source_rows(row_map)).second;
  }

  Grouped lay_out() {
    std::uint64_t tiles = 0;
    std::uint32_t parts = 0;
    for (Unit& unit : units_) {
      unit.first_tile = static_cast<std::uint32_t>(tiles);
      unit.first_part = parts;
      parts += std::exchange(unit.parts, 0);  // counted again as they take their places
      tiles += tiles_of(unit);
      if (tiles > kMaxTiles) {
        fail_input(
            fmt::format("A list of {} tasks is larger than the GPU takes at once ({} tiles); split it.",
                        tasks_.size(), kMaxTiles));
      }
    }
    Grouped grouped;
    if (tiles == 0) return grouped;
    grouped.shape.tile_count = static_cast<std::uint32_t>(tiles);
    grouped.shape.parts = align_up(units_.size() * sizeof(Unit), kSectionAlignment);
    grouped.shape.tile_units = grouped.shape.parts + align_up(parts * sizeof(UnitPart), kSectionAlignment);
    grouped.blob.resize(grouped.shape.tile_units + tiles * sizeof(std::uint32_t));
    write_parts(grouped.blob.data() + grouped.shape.parts);
    std::memcpy(grouped.blob.data(), units_.data(), units_.size() * sizeof(Unit));
    write_tile_units(grouped.blob.data() + grouped.shape.tile_units);
    return grouped;
  }

  void write_parts(std::byte* to) {
    for (const PartOfUnit& part : parts_) {
      Unit& unit = units_[part.unit];
      std::memcpy(to + (unit.first_part + unit.parts++) * sizeof(UnitPart), &part.part, sizeof(UnitPart));
    }
  }

  void write_tile_units(std::byte* to) {
    auto* next = reinterpret_cast<std::uint32_t*>(to);
    for (std::uint32_t i = 0; i < units_.size(); ++i) next = std::fill_n(next, tiles_of(units_[i]), i);
  }

  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  std::span<const Task> tasks_;
  DeviceMaps& maps_;
  std::vector<Unit> units_;
  std::vector<PartOfUnit> parts_;
  std::vector<std::uint32_t> slots_;  // hash table of units with a map, by where they go
  std::uint32_t last_matrix_ = kNone;
  std::vector<std::pair<const std::vector<std::uint32_t>*, const std::uint32_t*>> known_maps_;
};

}  // namespace

Grouped build_grouped(std::span<const Task> tasks, DeviceMaps& maps) {
  return Builder(tasks, maps).build();
}

}  // namespace refit::cuda
