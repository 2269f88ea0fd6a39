// What is judged of the engine's parameters: refit/verify's checks in place, as items of a comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/comparison.hpp"
#include "cuda/reference_tables.hpp"
#include "cuda/row_maps.hpp"
#include "refit/plan/plan.hpp"
#include "verify/pieces.hpp"

namespace refit::cuda {

/// The quantizer check reads back through the plan's row maps and scale formula, the layout check through the
/// references' tables. Where the two are the same numbers, one comparison answers both.
class InPlaceItems {
 public:
  struct Asked {
    const plan::Plan& plan;
    std::span<const std::byte> sources, destinations;
    const std::vector<bool>& masked;     ///< one flag a segment, or none
    verify::Tally* quantizer = nullptr;  ///< null: not asked for
    verify::Tally* layout = nullptr;
  };
  InPlaceItems(const Asked& asked, ReferenceTables& tables, RowMaps& row_maps)
      : asked_(asked), plan_(asked.plan), tables_(tables), row_maps_(row_maps) {}

  /// Adds all items; this object has to outlive the comparison's run().
  void add_to(Comparison& comparison);

 private:
  /// How matrices of one destination are stored.
  struct Storage {
    std::uint32_t destination = plan::kNone;
    const ReferenceTable* reference = nullptr;
    bool agree = false;                          ///< plan and reference
    const std::uint32_t* plan_rows = nullptr;    ///< for those that do not; null: the row itself
    const std::uint32_t* plan_places = nullptr;  ///< null: the formula, which has no padding
  };
  [[nodiscard]] Storage storage_of(std::uint32_t destination);
  [[nodiscard]] std::vector<std::uint32_t> places_of_plan(const plan::Destination& weight) const;

  void add_copies(Comparison& comparison, const verify::FedMatrix& fed) const;
  void add_quantized(Comparison& comparison, const verify::FedMatrix& fed, const Storage& storage) const;
  void add_padding(Comparison& comparison, const verify::FedMatrix& fed, const Storage& storage) const;
  [[nodiscard]] bool masked(std::uint32_t segment) const {
    return !asked_.masked.empty() && asked_.masked[segment];
  }

  Asked asked_;
  const plan::Plan& plan_;
  ReferenceTables& tables_;
  RowMaps& row_maps_;
  std::vector<DeviceBuffer> own_tables_;
};

}  // namespace refit::cuda
