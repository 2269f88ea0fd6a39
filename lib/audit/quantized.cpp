// Which rounding modes turn a checkpoint into its quantized form, and what that did to the values.
#include "refit/audit/quantized.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <unordered_set>

#include "audit/elements.hpp"
#include "audit/weights.hpp"
#include "checkpoint/tensor_names.hpp"
#include "quant/casts.hpp"
#include "refit/base/error.hpp"
#include "refit/layout/scale_128x4.hpp"

namespace refit::audit {
namespace {

using checkpoint::Checkpoint;
using ModeSet = std::bitset<kModes>;
using Octets = std::vector<std::uint8_t>;

/// A quantized tensor, its scales and its source.
struct Subject {
  const Checkpoint::Tensor* source = nullptr;
  const Checkpoint::Tensor* values = nullptr;
  const Checkpoint::Tensor* scales = nullptr;
  bool tiled = false;
  std::uint64_t matrices = 1, rows = 0, cols = 0;  ///< rows of one matrix
  [[nodiscard]] std::uint64_t blocks() const { return cols / quant::kBlock; }
};

/// What one thread has seen of a subject.
struct Seen {
  ModeSet modes = ModeSet().set();
  double max_abs_error = 0, error_power = 0, signal_power = 0;
  std::uint64_t blocks_at_0 = 0, blocks_at_1 = 0, saturated = 0;
  std::uint64_t nan = 0, infinite = 0, non_finite = 0;

  void merge(const Seen& other) {
    modes &= other.modes;
    max_abs_error = std::max(max_abs_error, other.max_abs_error);
    error_power += other.error_power;
    signal_power += other.signal_power;
    blocks_at_0 += other.blocks_at_0;
    blocks_at_1 += other.blocks_at_1;
    saturated += other.saturated;
    nan += other.nan;
    infinite += other.infinite;
    non_finite += other.non_finite;
  }
};

/// Rows of a matrix as both sides have them.
struct Slab {
  std::vector<std::uint16_t> source;  ///< BF16
  Octets values, scales;              ///< scales row-major
  Bytes stored_scales;                ///< the same as they lie there, with padding
  std::uint64_t stored_at = 0;        ///< where they begin
};

/// Scales of rows [row, row + rows) of a matrix; `row` is a multiple of 128.
void read_scales(Bytes data, const Subject& subject, std::uint64_t matrix, std::uint64_t row,
                 std::uint64_t rows, Slab& slab) {
  const std::uint64_t blocks = subject.blocks();
  slab.scales.resize(rows * blocks);
  if (!subject.tiled) {
    slab.stored_at = (matrix * subject.rows + row) * blocks;
    slab.stored_scales = data.subspan(slab.stored_at, slab.scales.size());
    std::memcpy(slab.scales.data(), slab.stored_scales.data(), slab.scales.size());
    return;
  }
  slab.stored_at =
      matrix * layout::scale_128x4_bytes(subject.rows, blocks) + row * layout::padded_scale_cols(blocks);
  slab.stored_scales = data.subspan(slab.stored_at, layout::scale_128x4_bytes(rows, blocks));
  layout::untile_scales_128x4(
      {reinterpret_cast<const std::uint8_t*>(slab.stored_scales.data()), slab.stored_scales.size()}, rows,
      blocks, slab.scales);
}

/// Bytes of the 128x4 layout that belong to no row and column are zero.
void check_padding(const Subject& subject, const Slab& slab, std::uint64_t rows, ElementTally& padding) {
  if (!subject.tiled) return;
  Octets tiled(slab.stored_scales.size());
  layout::tile_scales_128x4(slab.scales, rows, subject.blocks(), tiled);
  padding.compare(std::as_bytes(std::span(tiled)), slab.stored_scales, slab.stored_at);
}

Slab slab_of(const Checkpoint& source, const Checkpoint& quantized, const Subject& subject,
             std::uint64_t matrix, std::uint64_t row, std::uint64_t rows) {
  const std::uint64_t first = (matrix * subject.rows + row) * subject.cols, count = rows * subject.cols;
  const DType dtype = subject.source->spec.dtype;
  const std::byte* from = source.data(*subject.source).data() + first * size_of(dtype);
  Slab slab{.source = std::vector<std::uint16_t>(count),
            .values = Octets(count),
            .scales = {},
            .stored_scales = {}};
  quant::to_bf16(dtype, from, count, slab.source.data());
  std::memcpy(slab.values.data(), quantized.data(*subject.values).data() + first, count);
  read_scales(quantized.data(*subject.scales), subject, matrix, row, rows, slab);
  return slab;
}

/// Strikes the modes out of `alive` that give other bytes.
void race(const Slab& slab, ModeSet& alive) {
  Octets values(slab.values.size()), scales(slab.scales.size());
  for (std::size_t i = 0; i < kModes; ++i) {
    if (!alive[i]) continue;
    const quant::Options options{mode(i).rounding, mode(i).zero_scale, quant::NonFinite::as_producer};
    quant::quantize_blocks(slab.source, options, values, scales);
    if (values != slab.values || scales != slab.scales) alive.reset(i);
  }
}

const std::array<float, 256>& e4m3_values() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values{};
    for (std::size_t i = 0; i < 256; ++i) values[i] = quant::e4m3_value(static_cast<std::uint8_t>(i));
    return values;
  }();
  return table;
}

void measure(const Slab& slab, Seen& seen) {
  constexpr double largest = 448;
  constexpr std::uint8_t kOne = 0x38;  // of E4M3
  for (std::size_t block = 0; block < slab.scales.size(); ++block) {
    const std::uint8_t scale = slab.scales[block];
    seen.blocks_at_0 += scale == 0;
    seen.blocks_at_1 += scale == 1;
    const double unit = quant::mx_value(kOne, scale);  // NaN for 0xFF
    double error_power = 0, signal_power = 0, max_error = 0;
    for (std::size_t i = block * quant::kBlock; i < (block + 1) * quant::kBlock; ++i) {
      const double x = quant::bf16_value(slab.source[i]);
      const double y = e4m3_values()[slab.values[i]] * unit;
      seen.nan += std::isnan(x);
      seen.infinite += std::isinf(x);
      if (!std::isfinite(x) || !std::isfinite(y)) {
        ++seen.non_finite;
        continue;
      }
      const double error = std::abs(x - y);
      max_error = std::max(max_error, error);
      error_power += error * error;
      signal_power += x * x;
      seen.saturated += std::abs(x) > largest * unit && (slab.values[i] & 0x7F) == 0x7E;
    }
    seen.error_power += error_power;
    seen.signal_power += signal_power;
    seen.max_abs_error = std::max(seen.max_abs_error, max_error);
  }
}

/// Quantized by one mode against what is stored: the findings of a subject that no mode reproduces.
void compare(const Slab& slab, const Mode& by, std::uint64_t first_element, std::uint64_t first_block,
             ElementTally& values, ElementTally& scales) {
  Octets q(slab.values.size()), s(slab.scales.size());
  quant::quantize_blocks(slab.source, {by.rounding, by.zero_scale, quant::NonFinite::as_producer}, q, s);
  values.compare(std::as_bytes(std::span(q)), std::as_bytes(std::span(slab.values)), first_element);
  scales.compare(std::as_bytes(std::span(s)), std::as_bytes(std::span(slab.scales)), first_block);
}

struct SubjectPiece {
  std::size_t subject;
  std::uint64_t matrix, row, rows;
};

class QuantizedAudit {
 public:
  QuantizedAudit(const Checkpoint& source, const Checkpoint& quantized, ThreadPool& pool)
      : source_(source), quantized_(quantized), pool_(pool) {
    report_.command = "quantized";
    report_.inputs = {{"source", source.path()}, {"quantized", quantized.path()}};
    report_.quantized.emplace();
  }

  Report run() {
    for (const Checkpoint::Tensor& tensor : quantized_.tensors()) {
      if (tensor.spec.dtype == DType::f8_e4m3) find_subject(tensor);
    }
    compare_the_rest();
    judge_subjects();
    return std::move(report_);
  }

 private:
  static std::string describe(const TensorSpec& spec) {
    return fmt::format("{} {}", name_of(spec.dtype), to_string(spec.shape));
  }
  void add(const std::string& tensor, Fault fault, std::string expected, std::string got) {
    report_.judged.push_back(tensor);
    report_.findings.push_back(
        {.tensor = tensor, .fault = fault, .expected = std::move(expected), .got = std::move(got)});
  }

  void find_subject(const Checkpoint::Tensor& values) {
    const TensorSpec& spec = values.spec;
    const Checkpoint::Tensor* const scales = find_scales(quantized_, spec.name);
    const Checkpoint::Tensor* const source = source_.find(spec.name);
    if (scales == nullptr || source == nullptr || source->spec.dtype == spec.dtype) return;
    taken_.insert(spec.name);
    taken_.insert(scales->spec.name);
    const DType from = source->spec.dtype;
    if (!quant::can_become_bf16(from)) {
      return add(spec.name, Fault::dtype, "a quantization of BF16, F16 or F32", std::string(name_of(from)));
    }
    if (source->spec.shape != spec.shape || spec.shape.empty() || spec.shape.back() % quant::kBlock != 0) {
      return add(spec.name, Fault::shape, to_string(source->spec.shape), to_string(spec.shape));
    }
    Subject subject{.source = source, .values = &values, .scales = scales};
    subject.cols = spec.shape.back();
    subject.matrices = spec.shape.size() == 3 ? spec.shape[0] : 1;
    const std::uint64_t all_rows = subject.cols == 0 ? 0 : num_elements(spec.shape) / subject.cols;
    subject.rows = subject.matrices == 0 ? 0 : all_rows / subject.matrices;
    Shape row_major = spec.shape;
    row_major.back() = subject.blocks();
    // NeMo-RL drops a trailing dimension of 1.
    const bool plain = scales->spec.shape == row_major ||
                       (subject.blocks() == 1 && num_elements(scales->spec.shape) == all_rows);
    subject.tiled = !plain;
    const std::uint64_t tiled_bytes =
        subject.matrices * layout::scale_128x4_bytes(subject.rows, subject.blocks());
    if (subject.tiled && num_elements(scales->spec.shape) != tiled_bytes) {
      return add(scales->spec.name, Fault::shape,
                 fmt::format("{} or {} bytes of 128x4", to_string(row_major), tiled_bytes),
                 to_string(scales->spec.shape));
    }
    report_.judged.push_back(spec.name);
    report_.judged.push_back(scales->spec.name);
    report_.bytes += spec.bytes() + scales->spec.bytes();
    subjects_.push_back(subject);
  }

  /// Everything that is not quantized has to be there as it was.
  void compare_the_rest() {
    for (const Checkpoint::Tensor& tensor : quantized_.tensors()) {
      if (taken_.contains(tensor.spec.name) || source_.find(tensor.spec.name) != nullptr) continue;
      add(tensor.spec.name, Fault::extra, "no such tensor", describe(tensor.spec));
    }
    for (const Checkpoint::Tensor& tensor : source_.tensors()) {
      if (taken_.contains(tensor.spec.name)) continue;
      const Checkpoint::Tensor* const copy = quantized_.find(tensor.spec.name);
      if (copy == nullptr) {
        add(tensor.spec.name, Fault::missing, describe(tensor.spec), "no such tensor");
      } else {
        compare_copy(tensor, *copy);
      }
    }
  }

  void compare_copy(const Checkpoint::Tensor& from, const Checkpoint::Tensor& to) {
    const TensorSpec &a = from.spec, &b = to.spec;
    const bool cast = (a.dtype == DType::f32 || a.dtype == DType::f16) && b.dtype == DType::bf16 &&
                      !checkpoint::is_router_bias(a.name);
    if (a.dtype != b.dtype && !cast) {
      return add(a.name, Fault::dtype, std::string(name_of(a.dtype)), std::string(name_of(b.dtype)));
    }
    if (a.shape != b.shape) return add(a.name, Fault::shape, to_string(a.shape), to_string(b.shape));
    report_.judged.push_back(a.name);
    report_.bytes += b.bytes();
    ElementTally tally(b.dtype);
    const Bytes data = source_.data(from), copy = quantized_.data(to);
    const std::uint64_t width = size_of(b.dtype), piece = kPieceBytes / width, count = num_elements(b.shape);
    pool_.for_range((count + piece - 1) / piece, 1, [&](std::size_t begin, std::size_t end) {
      const std::uint64_t first = begin * piece, elements = std::min(count, end * piece) - first;
      const Bytes got = copy.subspan(first * width, elements * width);
      if (!cast) return tally.compare(data.subspan(first * width, elements * width), got, first);
      std::vector<std::uint16_t> expected(elements);
      quant::to_bf16(a.dtype, data.data() + first * size_of(a.dtype), elements, expected.data());
      tally.compare(std::as_bytes(std::span(expected)), got, first);
    });
    if (auto finding = tally.finding(b)) {
      report_.findings.push_back(std::move(*finding));
    } else if (cast) {
      report_.notes.push_back(fmt::format("{} is a cast of {} to BF16", a.name, name_of(a.dtype)));
    }
  }

  void for_each_slab(const std::vector<bool>& wanted,
                     const std::function<void(const SubjectPiece&, const Slab&)>& visit) {
    std::vector<SubjectPiece> pieces;
    for (std::size_t s = 0; s < subjects_.size(); ++s) {
      const Subject& subject = subjects_[s];
      if (!wanted[s] || subject.rows == 0) continue;  // of none there may be 2^63 matrices
      const std::uint64_t most = std::max<std::uint64_t>(
          128, kPieceBytes / 4 / std::max<std::uint64_t>(subject.cols, 1) / 128 * 128);
      for (std::uint64_t matrix = 0; matrix < subject.matrices; ++matrix) {
        for (std::uint64_t row = 0; row < subject.rows; row += most) {
          pieces.push_back({s, matrix, row, std::min(most, subject.rows - row)});
        }
      }
    }
    pool_.for_range(pieces.size(), 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t p = begin; p < end; ++p) {
        const SubjectPiece& piece = pieces[p];
        visit(piece,
              slab_of(source_, quantized_, subjects_[piece.subject], piece.matrix, piece.row, piece.rows));
      }
    });
  }

  void judge_subjects() {
    std::vector<Seen> seen(subjects_.size());
    std::deque<ElementTally> padding;
    for (const Subject& subject : subjects_) padding.emplace_back(subject.scales->spec.dtype);
    std::mutex mutex;
    for_each_slab(std::vector<bool>(subjects_.size(), true),
                  [&](const SubjectPiece& piece, const Slab& slab) {
                    Seen mine;
                    {
                      const std::lock_guard lock(mutex);
                      mine.modes = seen[piece.subject].modes;
                    }
                    race(slab, mine.modes);
                    measure(slab, mine);
                    check_padding(subjects_[piece.subject], slab, piece.rows, padding[piece.subject]);
                    const std::lock_guard lock(mutex);
                    seen[piece.subject].merge(mine);
                  });
    ModeSet common = ModeSet().set();
    for (std::size_t s = 0; s < subjects_.size(); ++s) {
      common &= seen[s].modes;
      report_.quantized->tensors.push_back(statistics(subjects_[s], seen[s]));
      if (auto finding = padding[s].finding(subjects_[s].scales->spec)) {
        report_.notes.push_back(
            fmt::format("scale padding of {} is not zero", subjects_[s].values->spec.name));
        report_.findings.push_back(std::move(*finding));
      }
    }
    report_.quantized->modes = flags(common);
    if (!subjects_.empty() && common.none()) add_findings(seen);
  }

  static std::vector<bool> flags(const ModeSet& modes) {
    std::vector<bool> flags(kModes);
    for (std::size_t i = 0; i < kModes; ++i) flags[i] = modes[i];
    return flags;
  }

  static QuantizedTensor statistics(const Subject& subject, const Seen& seen) {
    const std::uint64_t elements = num_elements(subject.values->spec.shape);
    QuantizedTensor tensor{.name = subject.values->spec.name,
                           .modes = flags(seen.modes),
                           .elements = elements,
                           .blocks = elements / quant::kBlock,
                           .blocks_at_0 = seen.blocks_at_0,
                           .blocks_at_1 = seen.blocks_at_1,
                           .saturated = seen.saturated,
                           .non_finite = seen.non_finite,
                           .nan = seen.nan,
                           .infinite = seen.infinite};
    if (tensor.finite() == 0) return tensor;
    tensor.max_abs_error = seen.max_abs_error;
    tensor.rms_error = std::sqrt(seen.error_power / static_cast<double>(tensor.finite()));
    if (seen.error_power > 0 && seen.signal_power > 0) {
      tensor.sqnr_db = 10 * std::log10(seen.signal_power / seen.error_power);
    }
    return tensor;
  }

  /// The mode that most tensors agree on, and every tensor that it does not reproduce.
  void add_findings(const std::vector<Seen>& seen) {
    std::array<std::size_t, kModes> votes{};
    for (const Seen& one : seen) {
      for (std::size_t i = 0; i < kModes; ++i) votes[i] += one.modes[i];
    }
    const auto best = static_cast<std::size_t>(std::max_element(votes.begin(), votes.end()) - votes.begin());
    std::vector<bool> lost(seen.size());
    for (std::size_t s = 0; s < seen.size(); ++s) lost[s] = !seen[s].modes[best];
    report_.notes.push_back(fmt::format("differences are against {}", words(mode(best))));
    std::deque<ElementTally> values, scales;
    for (const Subject& subject : subjects_) {
      values.emplace_back(DType::f8_e4m3);
      scales.emplace_back(subject.scales->spec.dtype);
    }
    for_each_slab(lost, [&](const SubjectPiece& piece, const Slab& slab) {
      const Subject& subject = subjects_[piece.subject];
      const std::uint64_t row = piece.matrix * subject.rows + piece.row;
      compare(slab, mode(best), row * subject.cols, row * subject.blocks(), values[piece.subject],
              scales[piece.subject]);
    });
    for (std::size_t s = 0; s < subjects_.size(); ++s) {
      const Subject& subject = subjects_[s];
      if (auto finding = values[s].finding(subject.values->spec)) {
        report_.findings.push_back(std::move(*finding));
      }
      // Row and block, wherever the layout keeps them.
      TensorSpec spec = subject.scales->spec;
      spec.shape = subject.values->spec.shape;
      spec.shape.back() = subject.blocks();
      if (auto finding = scales[s].finding(spec)) report_.findings.push_back(std::move(*finding));
    }
  }

  const Checkpoint& source_;
  const Checkpoint& quantized_;
  ThreadPool& pool_;
  std::unordered_set<std::string> taken_;
  std::vector<Subject> subjects_;
  Report report_;
};

}  // namespace

Report audit_quantized(const Checkpoint& source, const Checkpoint& quantized, ThreadPool& pool) {
  Report report = QuantizedAudit(source, quantized, pool).run();
  // A verdict of "equal" about nothing would hide a wrong path.
  if (report.quantized->tensors.empty()) {
    fail_input(
        fmt::format("{}: holds no MXFP8 tensor: none is F8_E4M3 with scales beside it (NAME_scale or "
                    "NAME_scale_from_checkpoint)",
                    quantized.path()));
  }
  return report;
}

}  // namespace refit::audit
