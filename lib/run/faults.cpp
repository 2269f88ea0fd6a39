// The faults, one small class each. Each is what some refit stack was publicly reported to have done.
#include "refit/run/faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "refit/base/error.hpp"
#include "refit/layout/scale_128x4.hpp"
#include "run/hooks.hpp"

namespace refit::run {
namespace {

using plan::Destination;
using plan::Plan;
using plan::Segment;
using plan::Wire;
using plan::WireEntry;
using verify::Check;

// --- choosing a victim
// ----------------------------------------------------------------------------------------------

bool is_quantized(const Plan& plan, const Wire& wire, std::size_t entry, bool scale) {
  const WireEntry& e = wire.entries[entry];
  return wire.prequantized && plan.segments[e.segment].op == plan::Op::quantize && e.scale == scale;
}

/// The n-th quantized value (or scale) entry of a bucket.
std::optional<std::size_t> quantized_in(const Plan& plan, const Wire& wire, std::size_t bucket, bool scale,
                                        std::size_t n = 0) {
  const plan::Bucket& b = wire.buckets[bucket];
  for (std::size_t e = b.first_entry; e < b.first_entry + b.entries; ++e) {
    if (is_quantized(plan, wire, e, scale) && n-- == 0) return e;
  }
  return std::nullopt;
}

/// The first entry of the wire that satisfies `wanted`.
template <typename Wanted>
std::optional<std::size_t> first_entry(const Wire& wire, Wanted wanted) {
  for (std::size_t e = 0; e < wire.entries.size(); ++e) {
    if (wanted(e)) return e;
  }
  return std::nullopt;
}

std::span<std::byte> bytes_of(const Wire& wire, std::size_t entry, std::span<std::byte> bucket) {
  return bucket.subspan(wire.offsets[entry], wire.entries[entry].bytes);
}

const Destination* first_shuffled(const Plan& plan) {
  for (const Destination& d : plan.destinations) {
    if (d.row_map != plan::kNone && d.scale_of == plan::kNone) return &d;
  }
  return nullptr;
}

const Destination* first_tiled(const Plan& plan, bool padded) {
  for (const Destination& d : plan.destinations) {
    if (d.scale_layout != plan::ScaleLayout::tiled_128x4) continue;
    const std::uint64_t cols = plan.destinations[d.scale_of].spec.cols() / quant::kBlock;
    if (!padded || cols % 4 != 0) return &d;
  }
  return nullptr;
}

// --- on the trainer
// -------------------------------------------------------------------------------------------------

struct FlipBitInTransit : Hooks {
  void in_transit(const Plan& plan, const Wire& wire, std::size_t bucket,
                  std::span<std::byte> bytes) override {
    const auto entry = quantized_in(plan, wire, bucket, false);
    if (!entry) return;
    bytes_of(wire, *entry, bytes)[wire.entries[*entry].bytes / 2] ^= std::byte{0x10};
    act();
  }
};

struct FlipBitBeforeSending : Hooks {
  void packed(const Plan& plan, const Wire& wire, std::size_t bucket, std::span<std::byte> bytes) override {
    const auto entry = quantized_in(plan, wire, bucket, false);
    if (!entry) return;
    bytes_of(wire, *entry, bytes)[wire.entries[*entry].bytes / 2] ^= std::byte{0x01};
    act();
  }
};

struct SwapExpertsInBucket : Hooks {
  void packed(const Plan& plan, const Wire& wire, std::size_t bucket, std::span<std::byte> bytes) override {
    const auto first = quantized_in(plan, wire, bucket, false);
    if (!first) return;
    for (std::size_t n = 1;; ++n) {
      const auto other = quantized_in(plan, wire, bucket, false, n);
      if (!other) return;
      if (wire.entries[*other].bytes != wire.entries[*first].bytes) continue;
      const std::span<std::byte> a = bytes_of(wire, *first, bytes), b = bytes_of(wire, *other, bytes);
      std::swap_ranges(a.begin(), a.end(), b.begin());
      act();
      return;
    }
  }
};

struct TruncatedTensor : Hooks {
  void packed(const Plan& plan, const Wire& wire, std::size_t bucket, std::span<std::byte> bytes) override {
    const auto entry = quantized_in(plan, wire, bucket, false);
    if (!entry) return;
    const std::span<std::byte> tensor = bytes_of(wire, *entry, bytes);
    std::fill(tensor.end() - static_cast<std::ptrdiff_t>(tensor.size() / 4), tensor.end(), std::byte{0});
    act();
  }
};

struct ScalesNeverComputed : Hooks {
  void packed(const Plan& plan, const Wire& wire, std::size_t bucket, std::span<std::byte> bytes) override {
    const auto entry = quantized_in(plan, wire, bucket, true);
    if (!entry) return;
    const std::span<std::byte> tensor = bytes_of(wire, *entry, bytes);
    std::fill(tensor.begin(), tensor.end(), std::byte{0});
    act();
  }
};

struct ScaleOffByOne : Hooks {
  void packed(const Plan& plan, const Wire& wire, std::size_t bucket, std::span<std::byte> bytes) override {
    const auto entry = quantized_in(plan, wire, bucket, true);
    if (!entry) return;
    std::byte& scale = bytes_of(wire, *entry, bytes).back();
    scale = static_cast<std::byte>(std::to_integer<unsigned>(scale) + 1);
    act();
  }
};

struct OtherRounding : Hooks {
  quant::Options quantize_options(const Segment&, const quant::Options& options) override {
    act();
    return {quant::Rounding::torchao_floor, options.zero_scale, options.non_finite};
  }
};

struct ScaleByteZeroKept : Hooks {
  quant::Options quantize_options(const Segment&, const quant::Options& options) override {
    if (options.zero_scale == quant::ZeroScale::one) act();
    return {options.rounding, quant::ZeroScale::keep, options.non_finite};
  }
};

/// The switch router_bias=bf16 does it; this says whether the model has such a bias.
struct BiasThroughBf16 : Hooks {
  void packed(const Plan& plan, const Wire& wire, std::size_t bucket, std::span<std::byte>) override {
    const plan::Bucket& b = wire.buckets[bucket];
    for (std::size_t e = b.first_entry; e < b.first_entry + b.entries; ++e) {
      if (plan.segments[wire.entries[e].segment].op == plan::Op::round_bf16) act();
    }
  }
};

/// A tensor that is copied as it is goes out with the bytes of the step before.
class StaleTensor : public Hooks {
 public:
  void before_update(const Plan& plan, std::span<const std::byte> sources) override {
    for (const Segment& segment : plan.segments) {
      if (segment.op != plan::Op::copy) continue;
      const plan::Source& source = plan.sources[segment.source];
      name_ = source.spec.name;
      const std::span<const std::byte> bytes = sources.subspan(source.offset, source.spec.bytes());
      stale_.assign(bytes.begin(), bytes.end());
      return;
    }
  }
  void packed(const Plan& plan, const Wire& wire, std::size_t bucket, std::span<std::byte> bytes) override {
    const plan::Bucket& b = wire.buckets[bucket];
    for (std::size_t e = b.first_entry; e < b.first_entry + b.entries; ++e) {
      const WireEntry& entry = wire.entries[e];
      const Segment& segment = plan.segments[entry.segment];
      if (segment.wire_name != name_) continue;
      const std::uint64_t row_bytes = entry.bytes / entry.rows;
      std::memcpy(bytes_of(wire, e, bytes).data(),
                  stale_.data() + (segment.source_row + entry.row_begin) * row_bytes, entry.bytes);
      act();
    }
  }

 private:
  std::string name_;
  std::vector<std::byte> stale_;
};

struct SegmentNotExecuted : Hooks {
  bool execute(const Plan& plan, const Segment& segment) override {
    if (&segment != first_quantize(plan)) return true;
    act();
    return false;
  }
  static const Segment* first_quantize(const Plan& plan) {
    for (const Segment& s : plan.segments) {
      if (s.op == plan::Op::quantize) return &s;
    }
    return nullptr;
  }
};

// --- on the generator
// -----------------------------------------------------------------------------------------------

/// Treats the first quantized entry (values or scales) in a way of its own.
class FirstQuantizedInstalled : public Hooks {
 public:
  FirstQuantizedInstalled(Install how, bool scale) : how_(how), scale_(scale) {}
  Install install(const Plan& plan, const WireEntry& entry) override {
    if (plan.segments[entry.segment].op != plan::Op::quantize || entry.scale != scale_) return Install::once;
    if (victim_.empty()) victim_ = entry.name;
    if (entry.name != victim_) return Install::once;
    act();
    return how_;
  }

 private:
  Install how_;
  bool scale_;
  std::string victim_;
};

/// Exchanges the places of the first quantized entry and of the next one that `partner` accepts, values and
/// scales.
class Exchanged : public Hooks {
 public:
  using Partner = std::function<bool(const Plan&, const Segment& victim, const Segment& other)>;
  explicit Exchanged(Partner partner) : partner_(std::move(partner)) {}
  std::size_t place_of(const Plan& plan, const Wire& wire, std::size_t entry) override {
    const auto victim = first_entry(wire, [&](std::size_t e) { return is_quantized(plan, wire, e, false); });
    if (!victim) return entry;
    const Segment& first = plan.segments[wire.entries[*victim].segment];
    const auto other = first_entry(wire, [&](std::size_t e) {
      return is_quantized(plan, wire, e, false) && wire.entries[e].bytes == wire.entries[*victim].bytes &&
             partner_(plan, first, plan.segments[wire.entries[e].segment]);
    });
    if (!other) return entry;
    act();
    for (const std::size_t scale : {std::size_t{0}, std::size_t{1}}) {  // an entry's scales follow it
      if (entry == *victim + scale) return *other + scale;
      if (entry == *other + scale) return *victim + scale;
    }
    return entry;
  }

 private:
  Partner partner_;
};

struct EarlyAcknowledge : Hooks {
  bool acknowledge_before_reading() override {
    act();
    return true;
  }
};

/// No fault but a slow reader: every byte has to be right nevertheless.
struct SlowReceiver : Hooks {
  double delay_before_reading() override {
    act();
    return 0.1;
  }
};

/// A reader whose device does not come to an end.
struct StuckReceiver : Hooks {
  double delay_before_reading() override {
    act();
    return 8;
  }
};

/// A slow reader that says too early that it is done.
struct SlowReceiverEarlyAcknowledge : SlowReceiver {
  bool acknowledge_before_reading() override { return true; }
};

class Shuffled : public Hooks {
 public:
  explicit Shuffled(unsigned times) : times_(times) {}
  unsigned shuffles(const Plan& plan, const Destination& weight) override {
    if (&weight != first_shuffled(plan)) return 1;
    act();
    return times_;
  }

 private:
  unsigned times_;
};

struct ScaleRowsSwapped : Hooks {
  void before_swizzle(const Plan& plan, const Destination& scale, std::span<std::byte> canonical) override {
    const std::uint64_t cols = plan.destinations[scale.scale_of].spec.cols() / quant::kBlock;
    if (&scale != first_tiled(plan, false)) return;
    std::swap_ranges(canonical.begin(), canonical.begin() + static_cast<std::ptrdiff_t>(cols),
                     canonical.begin() + static_cast<std::ptrdiff_t>(cols));
    act();
  }
};

struct ScalesRowMajor : Hooks {
  void installed(const Plan& plan, std::span<std::byte> destinations) override {
    const Destination* const scale = first_tiled(plan, false);
    if (scale == nullptr) return;
    const std::uint64_t cols = plan.destinations[scale->scale_of].spec.cols() / quant::kBlock;
    const std::span<std::byte> matrix = destinations.subspan(scale->offset, scale->matrix_bytes);
    const std::span<std::uint8_t> tiled{reinterpret_cast<std::uint8_t*>(matrix.data()), matrix.size()};
    std::vector<std::uint8_t> rows(scale->matrix_rows * cols);
    layout::untile_scales_128x4(tiled, scale->matrix_rows, cols, rows);
    std::fill(tiled.begin(), tiled.end(), std::uint8_t{0});
    std::copy(rows.begin(), rows.end(), tiled.begin());
    act();
  }
};

struct PaddingNotZero : Hooks {
  void installed(const Plan& plan, std::span<std::byte> destinations) override {
    const Destination* const scale = first_tiled(plan, true);
    if (scale == nullptr) return;
    const std::uint64_t cols = plan.destinations[scale->scale_of].spec.cols() / quant::kBlock;
    destinations[scale->offset + layout::scale_128x4_offset(0, cols, layout::padded_scale_cols(cols))] =
        std::byte{0xA5};
    act();
  }
};

struct FlipBitAfterInstall : Hooks {
  void installed(const Plan& plan, std::span<std::byte> destinations) override {
    const Destination* const weight = first_shuffled(plan);
    if (weight == nullptr) return;
    destinations[weight->offset + weight->matrix_bytes - 1] ^= std::byte{0x80};
    act();
  }
};

struct WritePastEnd : Hooks {
  void installed(const Plan& plan, std::span<std::byte> destinations) override {
    const Destination& first = plan.destinations.front();
    constexpr std::uint64_t kTooFar = 8;
    std::fill_n(destinations.begin() + static_cast<std::ptrdiff_t>(first.offset + first.spec.bytes()),
                kTooFar, std::byte{0xEE});
    act();
  }
};

struct StaleVersion : Hooks {
  std::uint64_t committed_version(std::uint64_t version) override {
    act();
    return version - 1;
  }
};

// --- the list
// -------------------------------------------------------------------------------------------------------

bool next_expert(const Plan&, const Segment& victim, const Segment& other) {
  return other.destination == victim.destination && other.matrix == victim.matrix + 1 &&
         other.row_begin == victim.row_begin;
}

bool other_half(const Plan&, const Segment& victim, const Segment& other) {
  return other.destination == victim.destination && other.matrix == victim.matrix &&
         other.row_begin != victim.row_begin;
}

template <typename Type, auto... arguments>
std::unique_ptr<Hooks> make() {
  return std::make_unique<Type>(arguments...);
}

template <auto partner>
std::unique_ptr<Hooks> make_exchanged() {
  return std::make_unique<Exchanged>(partner);
}

struct Entry {
  Fault fault;
  std::unique_ptr<Hooks> (*make)();
};

using Install = Hooks::Install;

constexpr std::array kFaults = {
    Entry{{"flip-bit-in-transit", "one bit changes between the processes", "", Check::wire},
          make<FlipBitInTransit>},
    Entry{{"early-acknowledge", "a buffer is acknowledged before it is read, and overwritten",
           "double_buffer=off,buffer_size=256KiB", Check::wire},
          make<EarlyAcknowledge>},
    Entry{{"flip-bit-before-sending", "one bit of a quantized value is wrong", "", Check::quantizer},
          make<FlipBitBeforeSending>},
    Entry{{"experts-swapped-in-bucket", "two experts' values travel under each other's key", "",
           Check::quantizer},
          make<SwapExpertsInBucket>},
    Entry{{"truncated-tensor", "the last quarter of a tensor is zero", "", Check::quantizer},
          make<TruncatedTensor>},
    Entry{{"scales-never-computed", "all scales of a tensor are zero", "", Check::quantizer},
          make<ScalesNeverComputed>},
    Entry{{"scale-off-by-one", "one scale byte is one too high", "", Check::quantizer}, make<ScaleOffByOne>},
    Entry{{"other-rounding", "the sender rounds torchao-floor where flashinfer was agreed", "",
           Check::quantizer},
          make<OtherRounding>},
    Entry{{"scale-byte-zero-kept", "scale byte 0 is not replaced by 1", "", Check::quantizer},
          make<ScaleByteZeroKept>},
    Entry{{"stale-tensor", "a tensor is from the step before", "", Check::quantizer}, make<StaleTensor>},
    Entry{{"bias-through-bf16", "the FP32 router bias is rounded to BF16 on its way", "router_bias=bf16",
           Check::quantizer},
          make<BiasThroughBf16>},
    Entry{{"experts-swapped-at-load", "two experts are loaded into each other's place", "", Check::layout},
          make_exchanged<next_expert>},
    Entry{{"w1-w3-exchanged", "gate and up rows are loaded into each other's place", "", Check::layout},
          make_exchanged<other_half>},
    Entry{{"unshuffled", "the rows of one layer's experts are not shuffled", "", Check::layout},
          make<Shuffled, 0u>},
    Entry{{"shuffled-twice", "the rows of one layer's experts are shuffled twice", "", Check::layout},
          make<Shuffled, 2u>},
    Entry{{"scale-rows-swapped", "two scale rows are exchanged", "", Check::layout}, make<ScaleRowsSwapped>},
    Entry{{"scales-row-major", "scales are left row-major where 128x4 tiles are due", "", Check::layout},
          make<ScalesRowMajor>},
    Entry{{"padding-not-zero", "a padding byte of the scales holds garbage", "", Check::layout},
          make<PaddingNotZero>},
    Entry{{"flip-bit-after-install", "one bit changes after the layout step", "", Check::layout},
          make<FlipBitAfterInstall>},
    Entry{{"tensor-not-loaded", "a tensor arrives and is never installed", "", Check::coverage},
          make<FirstQuantizedInstalled, Install::skip, false>},
    Entry{{"scales-not-loaded", "a tensor's scales arrive and are never installed", "", Check::coverage},
          make<FirstQuantizedInstalled, Install::skip, true>},
    Entry{{"tensor-loaded-twice", "a tensor is installed twice", "", Check::coverage},
          make<FirstQuantizedInstalled, Install::twice, false>},
    Entry{{"write-past-end", "eight bytes behind a tensor are overwritten", "", Check::coverage},
          make<WritePastEnd>},
    Entry{{"stale-version", "the version before is committed", "", Check::coverage}, make<StaleVersion>},
    Entry{{"segment-not-executed", "direct leaves one segment out", "pipeline=direct", Check::coverage},
          make<SegmentNotExecuted>},
};

}  // namespace

std::span<const Fault> all_faults() {
  static const std::vector<Fault> faults = [] {
    std::vector<Fault> list;
    for (const Entry& entry : kFaults) list.push_back(entry.fault);
    return list;
  }();
  return faults;
}

std::unique_ptr<Hooks> make_hooks(std::string_view fault) {
  if (fault.empty()) return std::make_unique<Hooks>();
  for (const Entry& entry : kFaults) {
    if (entry.fault.name != fault) continue;
    std::unique_ptr<Hooks> hooks = entry.make();
    hooks->plant();
    return hooks;
  }
  // Circumstances for tests: a refit survives the first, cannot survive the second, and the third shows that
  // the first is a danger.
  if (fault == "slow-receiver") return std::make_unique<SlowReceiver>();
  if (fault == "stuck-receiver") return std::make_unique<StuckReceiver>();
  if (fault == "slow-receiver-early-acknowledge") return std::make_unique<SlowReceiverEarlyAcknowledge>();
  fail_input(fmt::format("unknown fault '{}'", fault));
}

}  // namespace refit::run
