// What "equal" means: four separate equalities over every byte of a refit, judged from memory and from what
// the two processes recorded. Pure: no clocks, no transports; the reference paths of quant and layout only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refit/base/thread_pool.hpp"
#include "refit/plan/plan.hpp"
#include "refit/plan/wire.hpp"

namespace refit::verify {

enum class Check : std::uint8_t {
  wire,       ///< what arrived is what was sent, each key once, in order
  quantizer,  ///< what was sent is the scalar reference's bytes (for copied tensors: the source's bytes)
  layout,     ///< what the engine holds is the per-expert reference layout of it
  coverage,   ///< every destination byte written, exactly once, nothing beside it; the version announced
};
inline constexpr std::array kChecks = {Check::wire, Check::quantizer, Check::layout, Check::coverage};
[[nodiscard]] std::string_view name_of(Check check) noexcept;
[[nodiscard]] std::optional<Check> parse_check(std::string_view name) noexcept;

/// The first difference in one tensor, and how many bytes of it differ.
struct Finding {
  std::string tensor;
  std::uint64_t index = 0;    ///< of the byte in the tensor as it lies on the wire or in the engine
  std::string expected, got;  ///< for people: "0x7e", or words where it is not about a byte
  std::uint64_t count = 0;    ///< differing bytes (or events)
  std::string what;           ///< one clause: "differs from the scalar reference", "key never arrived", ...
};

struct Result {
  std::uint64_t bytes = 0;        ///< compared
  std::uint64_t mismatches = 0;   ///< bytes or events
  std::vector<Finding> findings;  ///< one for each tensor at fault, at most kMaxFindings
  static constexpr std::size_t kMaxFindings = 100;
  void add(Finding finding);
  void merge(Result other);
};

struct Verdict {
  std::array<Result, kChecks.size()> results;
  [[nodiscard]] Result& operator[](Check c) { return results[static_cast<std::size_t>(c)]; }
  [[nodiscard]] const Result& operator[](Check c) const { return results[static_cast<std::size_t>(c)]; }
  [[nodiscard]] bool passed() const noexcept;
  void merge(Verdict other);
};

/// Rows of a segment that some process wrote to their place, as it happened.
struct Executed {
  std::uint32_t segment = plan::kNone;
  std::uint64_t row_begin = 0, rows = 0;
};

// --- reference data ---

/// Canonical bytes of a segment's rows [row_begin, row_begin + rows): values as the destination's dtype holds
/// them, and for quantize segments row-major scales, by the scalar reference alone. Op::round_bf16 gives the
/// FP32 source itself: the reference never loses bits, so that the defect is found.
struct Canonical {
  std::vector<std::byte> values;
  std::vector<std::byte> scales;
};
[[nodiscard]] Canonical reference_rows(const plan::Plan& plan, const plan::Segment& segment,
                                       std::uint64_t row_begin, std::uint64_t rows,
                                       std::span<const std::byte> sources);

/// The bytes that a wire entry has to carry.
[[nodiscard]] std::vector<std::byte> reference_entry(const plan::Plan& plan, const plan::Wire& wire,
                                                     std::size_t entry, std::span<const std::byte> sources);

// --- the checks ---

/// Quantizer, on the sender: the packed bytes of one bucket against reference_entry of each of its entries.
/// Sets a flag in `wrong_entries` (grown to one for each of wire.entries) for every entry that differs.
[[nodiscard]] Result check_packed(const plan::Plan& plan, const plan::Wire& wire, std::size_t bucket,
                                  std::span<const std::byte> packed, std::span<const std::byte> sources,
                                  ThreadPool& pool, std::vector<bool>* wrong_entries = nullptr);

/// Wire: per entry, digest as sent and as received, and how often it was received.
struct WireEvidence {
  std::vector<std::uint64_t> sent, received;  ///< refit::digest of each entry's bytes
  std::vector<std::uint32_t> times_received;
};
[[nodiscard]] Result check_wire(const plan::Wire& wire, const WireEvidence& evidence);

/// Wire, for a refit without messages of data (direct): per destination, digest seen by sender and by
/// receiver.
[[nodiscard]] Result check_mapping(const plan::Plan& plan, std::span<const std::uint64_t> sender,
                                   std::span<const std::uint64_t> receiver);

/// Quantizer, where no canonical bytes were sent (direct, or quantized by the receiver): the engine's bytes
/// read back through the plan's closed index arithmetic against the scalar reference. Copy segments are
/// compared too.
[[nodiscard]] Result check_quantizer_in_place(const plan::Plan& plan, std::span<const std::byte> sources,
                                              std::span<const std::byte> destinations, ThreadPool& pool);

/// Layout: every destination byte against the layout module's per-expert reference of the canonical reference
/// bytes. Segments in `masked` (one flag each, may be empty) are known to be wrong before the layout step;
/// their bytes are not judged again here, and neither are rows that no segment feeds (coverage finds those).
/// Scale padding has to be zero.
[[nodiscard]] Result check_layout(const plan::Plan& plan, std::span<const std::byte> sources,
                                  std::span<const std::byte> destinations, const std::vector<bool>& masked,
                                  ThreadPool& pool);
/// One flag per segment: some entry of it arrived with other bytes than the reference's.
[[nodiscard]] std::vector<bool> mask_of(const plan::Plan& plan, const plan::Wire& wire,
                                        const WireEvidence& evidence, std::span<const std::byte> sources,
                                        ThreadPool& pool);
/// The same without quantizing again: an entry arrived with other bytes when check_packed has flagged it or
/// when it changed on its way.
[[nodiscard]] std::vector<bool> mask_of(const plan::Plan& plan, const plan::Wire& wire,
                                        const WireEvidence& evidence, const std::vector<bool>& wrong_entries);

/// check_quantizer_in_place and check_layout in one pass, which quantizes every block once. Bytes of `masked`
/// segments (sources that arrived as other bytes) are judged by neither.
struct InPlace {
  Result quantizer, layout;
};
[[nodiscard]] InPlace check_in_place(const plan::Plan& plan, std::span<const std::byte> sources,
                                     std::span<const std::byte> destinations, ThreadPool& pool,
                                     const std::vector<bool>& masked = {});

/// Coverage, exactly once: a bitmap of every destination tensor from the executed rows. `canonical` true says
/// rows were installed in canonical order (staged, before the shuffle pass): scales then fill [matrices *
/// matrix_rows, K / 32], and zero segments are not looked at. False says rows went to their stored place; a
/// row of tiled scales owns its part of the padded columns, zero segments own the padded rows.
[[nodiscard]] Result check_executed(const plan::Plan& plan, std::span<const Executed> executed,
                                    bool canonical, ThreadPool& pool);

/// Coverage, completely: per-destination digests after two refits of the same weights over two different
/// poisons.
[[nodiscard]] std::vector<std::uint64_t> destination_digests(const plan::Plan& plan,
                                                             std::span<const std::byte> destinations,
                                                             ThreadPool& pool);
/// `destinations` is the arena after the second refit, which began as bytes `poison`; it serves to say where:
/// the longest stretch of poison in a parameter whose digests differ.
[[nodiscard]] Result check_poison(const plan::Plan& plan, std::span<const std::uint64_t> first,
                                  std::span<const std::uint64_t> second,
                                  std::span<const std::byte> destinations, std::byte poison);

// --- poison and guards ---

/// Byte ranges of an arena that belong to no tensor get a fixed position-dependent pattern.
struct Extent {
  std::string name;
  std::uint64_t offset = 0, bytes = 0;
};
[[nodiscard]] std::vector<Extent> source_extents(const plan::Plan& plan);
[[nodiscard]] std::vector<Extent> destination_extents(const plan::Plan& plan);
void fill_guards(std::span<const Extent> extents, std::span<std::byte> arena);
[[nodiscard]] Result check_guards(std::span<const Extent> extents, std::span<const std::byte> arena);
/// Fills the tensors, not the guards.
void poison(std::span<const Extent> extents, std::span<std::byte> arena, std::byte value, ThreadPool& pool);

}  // namespace refit::verify
