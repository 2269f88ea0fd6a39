// The staged pipeline's view of a plan: what travels under which key, in which bucket, at which offset.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "refit/plan/plan.hpp"
#include "refit/plan/switches.hpp"

namespace refit::plan {

/// Every tensor of a bucket starts on this boundary (NeMo-RL packs the same way).
inline constexpr std::uint64_t kWireAlignment = 512;

/// One key of the key list: a segment's rows as they travel, values or scales. A segment that is larger than
/// a bucket travels in pieces of whole rows; its keys end in "#rows=BEGIN:END".
struct WireEntry {
  std::string name;
  DType dtype{};  ///< what is really sent
  Shape shape;    ///< what is really sent
  std::uint64_t bytes = 0;
  std::uint32_t segment = kNone;
  std::uint64_t row_begin = 0, rows = 0;  ///< of the segment
  bool scale = false;                     ///< the E8M0 scales [.., K/32] of the entry before it
};

struct Bucket {
  std::uint32_t first_entry = 0, entries = 0;
  std::uint64_t used_bytes = 0;  ///< end of the last tensor; starts are aligned to kWireAlignment
};

/// The whole transfer, the same on both sides.
struct Wire {
  std::vector<WireEntry> entries;
  std::vector<std::uint64_t> offsets;  ///< of each entry in its bucket
  std::vector<Bucket> buckets;
  bool prequantized = false;
  std::uint64_t bytes = 0;           ///< of the entries, without alignment
  std::uint64_t largest_bucket = 0;  ///< never above the limit given
};

/// Entries in the order of the plan's segments (zero segments do not travel), filled into buckets of at most
/// `bucket_bytes`. With `prequantize` a quantize segment becomes two entries, W and W_scale_from_checkpoint
/// (values and scales of the same rows are neighbours and may fall into different buckets); otherwise it
/// travels as BF16. A rounded router bias travels as FP32: the sender rounds it through BF16 and back. Throws
/// Error(input) naming tensor, row bytes and bucket_bytes when one row does not fit a bucket.
[[nodiscard]] Wire make_wire(const Plan& plan, bool prequantize, std::uint64_t bucket_bytes);

/// The manifest, sent once: plain JSON text that any reader can parse.
/// {"schema":"refit-manifest/1","plan":"<hex>","digest":"<hex>","rounding":"flashinfer","zero_scale":"one",
///  "tensors":[{"name","dtype","shape"},...]}; `digest` covers entries, offsets and buckets.
[[nodiscard]] std::string encode_manifest(const Plan& plan, const Wire& wire);
/// Compares a manifest received with the wire computed here. Throws Error(input) that names the first
/// difference: missing, duplicate, unexpected or reordered key, dtype, shape, rounding, digest.
void check_manifest(std::string_view manifest, const Plan& plan, const Wire& wire);

/// One bucket's message body. key_list: count and keys, from which the receiver rebuilds offsets. offset_map:
/// for each key also dtype, shape, offset and bytes, as upstream did before.
[[nodiscard]] std::string encode_bucket(const Wire& wire, std::size_t bucket, Metadata metadata);

/// What a receiver keeps between buckets of one refit: keys must come once each and in the manifest's order.
class KeyReader {
 public:
  /// `wire` must outlive the reader.
  explicit KeyReader(const Wire& wire);
  /// Begins a new refit.
  void reset();
  /// Checks one message and returns the bucket it describes (offsets are wire.offsets). Throws Error(input)
  /// that names the key and the reason (duplicate, unexpected, reordered, truncated message, offsets or dtype
  /// that differ, used_bytes that differ) before anything is installed.
  const Bucket& read(std::string_view body, std::uint64_t used_bytes, Metadata metadata);
  /// Throws Error(input) naming the first missing key unless every key has come.
  void finish() const;

 private:
  const Wire* wire_;
  std::uint32_t next_entry_ = 0, next_bucket_ = 0;
};

}  // namespace refit::plan
