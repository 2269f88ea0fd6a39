// The quantizer check where canonical bytes travel, and what of them the layout check must not judge again.
#include <algorithm>

#include "refit/base/digest.hpp"
#include "verify/evidence.hpp"
#include "verify/reference.hpp"

namespace refit::verify {
namespace {

std::uint64_t piece_rows(const plan::Plan& plan, const Travel& travel) {
  return rows_of_a_piece(value_row_bytes(plan, plan.segments[travel.segment]));
}

/// Rows of a travel that one thread compares at once.
struct TravelPiece {
  const Travel* travel = nullptr;
  Rows rows;
};
std::vector<TravelPiece> travel_pieces(const plan::Plan& plan, const std::vector<Travel>& travels) {
  std::vector<TravelPiece> pieces;
  for (const Travel& travel : travels) {
    const std::uint64_t most = piece_rows(plan, travel);
    for (std::uint64_t done = 0; done < travel.rows.count; done += most) {
      pieces.push_back({&travel, {travel.rows.begin + done, std::min(most, travel.rows.count - done)}});
    }
  }
  return pieces;
}

/// Compares what an entry has to carry from byte `at` on with what was packed for it.
void compare_entry(const plan::Wire& wire, std::uint32_t entry, std::uint64_t at, Bytes expected,
                   Bytes packed, std::string_view what, Tally& tally) {
  if (entry == plan::kNone) return;
  tally.compare(entry, at, expected, packed.subspan(wire.offsets[entry] + at, expected.size()), what);
}

void compare_piece(const plan::Plan& plan, const plan::Wire& wire, const TravelPiece& piece, Bytes packed,
                   Bytes sources, Tally& tally) {
  const Travel& travel = *piece.travel;
  const std::string_view what = difference_of(plan.segments[travel.segment], wire.prequantized);
  const std::uint64_t first_row = piece.rows.begin - travel.rows.begin;
  visit_travel(plan, wire, travel, piece.rows, sources, [&](Bytes values, Bytes scales) {
    // A row's bytes from the piece's: these are what the row has in the entry, whatever travels.
    const auto at = [&](Bytes bytes) { return first_row * (bytes.size() / piece.rows.count); };
    compare_entry(wire, travel.values, at(values), values, packed, what, tally);
    compare_entry(wire, travel.scales, at(scales), scales, packed, what, tally);
  });
}

/// Digests of what the entries of one travel have to carry.
struct Digests {
  std::uint64_t values = 0, scales = 0;
};
Digests reference_digests(const plan::Plan& plan, const plan::Wire& wire, const Travel& travel,
                          Bytes sources) {
  Digests digests;
  std::uint64_t value_bytes = 0, scale_bytes = 0;
  for (const TravelPiece& piece : travel_pieces(plan, {travel})) {
    visit_travel(plan, wire, travel, piece.rows, sources, [&](Bytes values, Bytes scales) {
      digests.values += digest_part(values, value_bytes / 8);
      digests.scales += digest_part(scales, scale_bytes / 8);
      value_bytes += values.size();
      scale_bytes += scales.size();
    });
  }
  digests.values += mix64(value_bytes + 1);
  digests.scales += mix64(scale_bytes + 1);
  return digests;
}

}  // namespace

Result check_packed(const plan::Plan& plan, const plan::Wire& wire, std::size_t bucket, Bytes packed,
                    Bytes sources, ThreadPool& pool, std::vector<bool>* wrong_entries) {
  require_sources(plan, sources);
  require_packed(wire, bucket, packed);
  const plan::Bucket& described = wire.buckets[bucket];
  const std::vector<Travel> travels = travels_of(wire, described.first_entry, described.entries);
  const std::vector<TravelPiece> pieces = travel_pieces(plan, travels);

  Tally tally;
  pool.for_range(pieces.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      compare_piece(plan, wire, pieces[i], packed, sources, tally);
    }
  });
  if (wrong_entries != nullptr) {
    wrong_entries->resize(wire.entries.size());
    for (const std::size_t entry : tally.tensors()) (*wrong_entries)[entry] = true;
  }
  return tally.result([&](std::size_t entry) {
    return Tally::Tensor{wire.entries[entry].name, wire.entries[entry].dtype};
  });
}

std::vector<bool> mask_of(const plan::Plan& plan, const plan::Wire& wire, const WireEvidence& evidence,
                          Bytes sources, ThreadPool& pool) {
  require_sources(plan, sources);
  require_evidence(wire, evidence);
  const std::vector<Travel> travels = travels_of(wire, 0, static_cast<std::uint32_t>(wire.entries.size()));
  std::vector<std::uint64_t> reference(wire.entries.size());
  pool.for_range(travels.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const Digests digests = reference_digests(plan, wire, travels[i], sources);
      if (travels[i].values != plan::kNone) reference[travels[i].values] = digests.values;
      if (travels[i].scales != plan::kNone) reference[travels[i].scales] = digests.scales;
    }
  });

  std::vector<bool> mask(plan.segments.size());
  for (std::size_t entry = 0; entry < wire.entries.size(); ++entry) {
    if (evidence.received[entry] != reference[entry]) mask[wire.entries[entry].segment] = true;
  }
  return mask;
}

std::vector<bool> mask_of(const plan::Plan& plan, const plan::Wire& wire, const WireEvidence& evidence,
                          const std::vector<bool>& wrong_entries) {
  require_evidence(wire, evidence);
  std::vector<bool> mask(plan.segments.size());
  for (std::size_t entry = 0; entry < wire.entries.size(); ++entry) {
    const bool sent_wrong = entry < wrong_entries.size() && wrong_entries[entry];
    if (sent_wrong || evidence.received[entry] != evidence.sent[entry]) {
      mask[wire.entries[entry].segment] = true;
    }
  }
  return mask;
}

}  // namespace refit::verify
