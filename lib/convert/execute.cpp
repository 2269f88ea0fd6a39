// The work in units of a few MiB: bands of stored rows of one matrix, gathered, converted and written.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <span>

#include "convert/values.hpp"
#include "refit/base/error.hpp"
#include "refit/convert/convert.hpp"
#include "refit/layout/scale_128x4.hpp"

namespace refit::convert {
namespace {

/// Source bytes of a unit, as far as whole rows (128 of them where scales are tiled) allow. All threads'
/// buffers together stay below kMostBuffered.
constexpr std::uint64_t kUnitBytes = 4u << 20, kLeastUnitBytes = 256u << 10, kMostBuffered = 512u << 20;
constexpr std::uint64_t kTileRows = 128;
/// Units for each thread whose source is asked for ahead. A file that is not in the page cache would else be
/// read by page faults, one short stretch after the other.
constexpr std::size_t kAhead = 4;
/// Elements that are looked at at once for the first one that is not finite.
constexpr std::uint64_t kSearchElements = 1u << 16;

/// Stored rows [row, row + rows) of one matrix of a target.
struct Unit {
  std::uint32_t target = 0;
  std::uint64_t matrix = 0, row = 0, rows = 0;
};

std::uint64_t element_bytes(const Target& target) {
  return size_of(target.pieces.front().dtype);
}

std::vector<Unit> units_of(const Conversion& conversion, std::uint64_t unit_bytes) {
  std::vector<Unit> units;
  for (std::uint32_t t = 0; t < conversion.targets.size(); ++t) {
    const Target& target = conversion.targets[t];
    if (target.matrices == 0 || target.matrix_rows == 0 || target.cols == 0) continue;
    std::uint64_t band = std::max<std::uint64_t>(1, unit_bytes / (target.cols * element_bytes(target)));
    if (target.tiled) band = std::max(kTileRows, band / kTileRows * kTileRows);
    for (std::uint64_t matrix = 0; matrix < target.matrices; ++matrix) {
      for (std::uint64_t row = 0; row < target.matrix_rows; row += band) {
        units.push_back({t, matrix, row, std::min(band, target.matrix_rows - row)});
      }
    }
  }
  return units;
}

/// Rows of one piece that lie one below the other in the source and in the target.
struct Run {
  const Piece* piece = nullptr;
  std::uint64_t piece_row = 0;  ///< of the piece
  std::uint64_t unit_row = 0;   ///< of the unit
  std::uint64_t rows = 0;
};

/// Lets the kernel read what the unit will need; a hint, so nothing comes of a failure.
void ask_for(const Unit& unit, const Conversion& conversion, const checkpoint::Checkpoint& source) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const Target& target = conversion.targets[unit.target];
  const std::size_t per_matrix = target.pieces.size() / target.matrices;
  for (std::size_t p = 0; p < per_matrix; ++p) {
    const Piece& piece = target.pieces[unit.matrix * per_matrix + p];
    std::uint64_t first = 0, last = piece.rows;  // of the piece; an order may want any of them
    if (target.order == kNone) {
      first = std::clamp(unit.row, piece.row_begin, piece.row_begin + piece.rows) - piece.row_begin;
      last =
          std::clamp(unit.row + unit.rows, piece.row_begin, piece.row_begin + piece.rows) - piece.row_begin;
    }
    if (first == last || piece.source == kNone) continue;
    const std::uint64_t row_bytes = piece.stride * element_bytes(target);
    const std::byte* const data = source.data(source.tensors()[piece.source]).data();
    const auto begin = reinterpret_cast<std::uintptr_t>(data + (piece.row + first) * row_bytes) / page * page;
    const auto end = reinterpret_cast<std::uintptr_t>(data + (piece.row + last) * row_bytes);
    (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
  }
}

/// What one thread needs; its buffers grow to the largest unit and are used again.
class Worker {
 public:
  Worker(const Conversion& conversion, const checkpoint::Checkpoint& source, checkpoint::Writer& writer,
         const Hooks& hooks)
      : conversion_(conversion), source_(source), writer_(writer), hooks_(hooks) {}

  /// Bytes written.
  std::uint64_t work(const Unit& unit) {
    unit_ = unit;
    target_ = &conversion_.targets[unit.target];
    find_runs();
    const std::uint64_t before = written_;
    switch (target_->op) {
      case Op::copy:
        copy_rows(&Piece::source, element_bytes(*target_), target_->cols, target_->values);
        break;
      case Op::cast:
        cast();
        break;
      case Op::quantize:
        quantize();
        break;
      case Op::carry:
        carry();
        break;
      case Op::dequantize:
        dequantize_rows();
        break;
    }
    return written_ - before;
  }

 private:
  void find_runs() {
    runs_.clear();
    const std::size_t per_matrix = target_->pieces.size() / target_->matrices;
    const std::span<const Piece> pieces =
        std::span(target_->pieces).subspan(unit_.matrix * per_matrix, per_matrix);
    const auto piece_of = [&](std::uint64_t row) {
      return &*(std::upper_bound(pieces.begin(), pieces.end(), row,
                                 [](std::uint64_t r, const Piece& piece) { return r < piece.row_begin; }) -
                1);
    };
    for (std::uint64_t n = 0; n < unit_.rows;) {
      const bool ordered = target_->order != kNone;
      const std::uint64_t row = ordered ? conversion_.orders[target_->order][unit_.row + n] : unit_.row + n;
      const Piece* const piece = piece_of(row);
      if (piece->source == kNone) zeros_.resize(std::max<std::size_t>(zeros_.size(), zero_bytes()));
      const std::uint64_t piece_row = row - piece->row_begin;
      const std::uint64_t rows = ordered ? 1 : std::min(unit_.rows - n, piece->rows - piece_row);
      runs_.push_back({.piece = piece, .piece_row = piece_row, .unit_row = n, .rows = rows});
      n += rows;
    }
  }

  /// Rows without a source are all the same row of zeros.
  [[nodiscard]] const std::byte* data(std::uint32_t tensor) const {
    return tensor == kNone ? zeros_.data() : source_.data(source_.tensors()[tensor]).data();
  }
  [[nodiscard]] std::size_t zero_bytes() const { return target_->cols * element_bytes(*target_); }
  [[nodiscard]] static DType dtype(const Run& run) { return run.piece->dtype; }

  /// Calls row(from, to_row) for every row of the unit, or once for a run without a gap between its rows.
  template <typename Body>
  void for_each_stretch(const Body& body) const {
    for (const Run& run : runs_) {
      const Piece& piece = *run.piece;
      const bool dense = piece.stride == target_->cols;
      for (std::uint64_t r = 0; r < run.rows; r += dense ? run.rows : 1) {
        const std::uint64_t element = (piece.row + run.piece_row + r) * piece.stride + piece.col;
        body(run, element, run.unit_row + r, dense ? run.rows : 1);
      }
    }
  }

  [[nodiscard]] std::uint64_t first_row() const { return unit_.matrix * target_->matrix_rows + unit_.row; }

  void write(std::uint32_t output, std::uint64_t offset, std::span<const std::byte> bytes) {
    writer_.write(output, offset, bytes);
    written_ += bytes.size();
  }

  /// Rows of `cols` of `size` bytes as they are; `cols` is the target's width, or its 32nd part for scales.
  void copy_rows(std::uint32_t Piece::*tensor, std::uint64_t size, std::uint64_t cols, std::uint32_t output) {
    const std::uint64_t row_bytes = cols * size, share = target_->cols / cols;
    const std::uint64_t offset = first_row() * row_bytes;
    const Run& first = runs_.front();
    if (runs_.size() == 1 && first.piece->stride == target_->cols) {  // straight from the mapping
      const std::uint64_t element = (first.piece->row + first.piece_row) * first.piece->stride / share;
      return write(output, offset, {data(first.piece->*tensor) + element * size, unit_.rows * row_bytes});
    }
    gather(tensor, size, share);
    write(output, offset, std::span(bytes_).first(unit_.rows * row_bytes));
  }

  /// The same into bytes_, row by row.
  void gather(std::uint32_t Piece::*tensor, std::uint64_t size, std::uint64_t share) {
    const std::uint64_t row_bytes = target_->cols / share * size;
    bytes_.resize(std::max<std::size_t>(bytes_.size(), unit_.rows * row_bytes));
    for_each_stretch([&](const Run& run, std::uint64_t element, std::uint64_t row, std::uint64_t rows) {
      std::memcpy(bytes_.data() + row * row_bytes, data(run.piece->*tensor) + element / share * size,
                  rows * row_bytes);
    });
  }

  void cast() {
    words_.resize(std::max<std::size_t>(words_.size(), unit_.rows * target_->cols));
    for_each_stretch([&](const Run& run, std::uint64_t element, std::uint64_t row, std::uint64_t rows) {
      to_bf16(dtype(run), data(run.piece->source) + element * size_of(dtype(run)), rows * target_->cols,
              words_.data() + row * target_->cols);
    });
    write_words();
  }

  void dequantize_rows() {
    words_.resize(std::max<std::size_t>(words_.size(), unit_.rows * target_->cols));
    for_each_stretch([&](const Run& run, std::uint64_t element, std::uint64_t row, std::uint64_t rows) {
      dequantize(data(run.piece->source) + element, data(run.piece->scales) + element / quant::kBlock,
                 rows * target_->cols / quant::kBlock, words_.data() + row * target_->cols);
    });
    write_words();
  }

  void write_words() {
    write(target_->values, first_row() * target_->cols * sizeof(std::uint16_t),
          std::as_bytes(std::span(words_).first(unit_.rows * target_->cols)));
  }

  void carry() {
    copy_rows(&Piece::source, 1, target_->cols, target_->values);
    const std::uint64_t scale_cols = target_->cols / quant::kBlock;
    if (!target_->tiled) return copy_rows(&Piece::scales, 1, scale_cols, target_->scales);
    gather(&Piece::scales, 1, quant::kBlock);
    write_tiled({reinterpret_cast<const std::uint8_t*>(bytes_.data()), unit_.rows * scale_cols});
  }

  void quantize() {
    const std::uint64_t cols = target_->cols, scale_cols = cols / quant::kBlock;
    q_.resize(std::max<std::size_t>(q_.size(), unit_.rows * cols));
    scales_.resize(std::max<std::size_t>(scales_.size(), unit_.rows * scale_cols));
    rows_.clear();
    for_each_row([&](const std::uint16_t* in, std::uint64_t row) {
      rows_.push_back({.in = in, .q = q_.data() + row * cols, .scales = scales_.data() + row * scale_cols});
    });
    const bool finite = hooks_.quantize(rows_, cols, conversion_.quant);
    if (!finite && conversion_.quant.non_finite == quant::NonFinite::refuse) refuse_non_finite();
    write(target_->values, first_row() * cols, std::as_bytes(std::span(q_).first(unit_.rows * cols)));
    const std::span<const std::uint8_t> scales = std::span(scales_).first(unit_.rows * scale_cols);
    if (target_->tiled) return write_tiled(scales);
    write(target_->scales, first_row() * scale_cols, std::as_bytes(scales));
  }

  /// BF16 rows: where they are, or in words_ when they are of another dtype or not aligned.
  template <typename Body>
  void for_each_row(const Body& body) {
    const std::uint64_t cols = target_->cols;
    words_.resize(std::max<std::size_t>(words_.size(), unit_.rows * cols));
    for_each_stretch([&](const Run& run, std::uint64_t element, std::uint64_t row, std::uint64_t rows) {
      const std::byte* const at = data(run.piece->source) + element * size_of(dtype(run));
      const bool in_place =
          dtype(run) == DType::bf16 && reinterpret_cast<std::uintptr_t>(at) % alignof(std::uint16_t) == 0;
      const std::uint16_t* in = reinterpret_cast<const std::uint16_t*>(at);
      if (!in_place) {
        in = words_.data() + row * cols;
        to_bf16(dtype(run), at, rows * cols, words_.data() + row * cols);
      }
      for (std::uint64_t r = 0; r < rows; ++r) body(in + r * cols, row + r);
    });
  }

  /// A band begins at a tile's first row, so its tiles are whole, and one behind the other.
  void write_tiled(std::span<const std::uint8_t> scales) {
    const std::uint64_t scale_cols = target_->cols / quant::kBlock;
    tiles_.resize(layout::scale_128x4_bytes(unit_.rows, scale_cols));
    layout::tile_scales_128x4(scales, unit_.rows, scale_cols, tiles_);
    write(target_->scales,
          unit_.matrix * layout::scale_128x4_bytes(target_->matrix_rows, scale_cols) +
              unit_.row * layout::padded_scale_cols(scale_cols),
          std::as_bytes(std::span(tiles_)));
  }

  /// Names the first such element of the first tensor of this unit that has one, wherever the unit is.
  [[noreturn]] void refuse_non_finite() {
    std::uint32_t last = kNone;
    for (const Run& run : runs_) {
      if (run.piece->source != kNone && run.piece->source != last) refuse_non_finite(run.piece->source);
      last = run.piece->source;
    }
    fail_runtime(fmt::format("{}: an element of {} was not finite when it was quantized and is now",
                             source_.path(), conversion_.outputs[target_->values].name));
  }

  void refuse_non_finite(std::uint32_t tensor) {
    const TensorSpec& spec = source_.tensors()[tensor].spec;
    const std::byte* const from = data(tensor);
    const std::uint64_t count = num_elements(spec.shape);
    std::vector<std::uint16_t> words(std::min(count, kSearchElements));
    for (std::uint64_t begin = 0; begin < count; begin += kSearchElements) {
      const std::uint64_t elements = std::min(kSearchElements, count - begin);
      to_bf16(spec.dtype, from + begin * size_of(spec.dtype), elements, words.data());
      const auto found = quant::find_non_finite(std::span(words).first(elements));
      if (!found) continue;
      const std::uint64_t index = begin + *found;
      const float value = value_at(spec.dtype, from, index);
      fail_input(fmt::format("{}: element {} is {}{}; --non-finite as-producer converts it all the same",
                             source_.place(source_.tensors()[tensor]), index_text(spec.shape, index), value,
                             std::isfinite(value) ? ", which is infinite in BF16" : ""));
    }
  }

  static std::string index_text(const Shape& shape, std::uint64_t flat) {
    Shape index(shape.size());
    for (std::size_t d = shape.size(); d-- > 0; flat /= shape[d]) index[d] = flat % shape[d];
    return to_string(index);
  }

  const Conversion& conversion_;
  const checkpoint::Checkpoint& source_;
  checkpoint::Writer& writer_;
  const Hooks& hooks_;
  Unit unit_;
  const Target* target_ = nullptr;
  std::uint64_t written_ = 0;
  std::vector<Run> runs_;
  std::vector<quant::Row> rows_;
  std::vector<std::uint16_t> words_;
  std::vector<std::byte> bytes_, zeros_;
  std::vector<std::uint8_t> q_, scales_, tiles_;
};

}  // namespace

void execute(const Conversion& conversion, const checkpoint::Checkpoint& source, checkpoint::Writer& writer,
             ThreadPool& pool, const Hooks& hooks) {
  const std::uint64_t unit_bytes =
      std::clamp(kMostBuffered / pool.threads() / 2, kLeastUnitBytes, kUnitBytes);
  const std::vector<Unit> units = units_of(conversion, unit_bytes);
  const std::uint64_t total = conversion.output_bytes();
  const std::size_t ahead = kAhead * pool.threads();
  std::atomic<std::size_t> next = 0;
  std::mutex progress;
  std::uint64_t done = 0;
  pool.for_range(pool.threads(), 1, [&](std::size_t, std::size_t) {
    Worker worker(conversion, source, writer, hooks);
    try {
      for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < units.size();) {
        if (hooks.stop && hooks.stop()) fail_runtime("interrupted");
        if (i + ahead < units.size()) ask_for(units[i + ahead], conversion, source);
        const std::uint64_t written = worker.work(units[i]);
        const std::lock_guard lock(progress);
        done += written;
        if (hooks.progress) hooks.progress(done, total);
      }
    } catch (...) {
      next.store(units.size(), std::memory_order_relaxed);
      throw;
    }
  });
}

}  // namespace refit::convert
