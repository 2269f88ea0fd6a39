// Column-parallel tensors lose rows, row-parallel ones columns, the rest is whole on every rank;
// model/split.hpp says which.
#include "convert/slice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "refit/base/error.hpp"
#include "refit/model/split.hpp"

namespace refit::convert {
std::uint64_t Slice::matrix_rows() const noexcept {
  std::uint64_t sum = zero_rows;
  for (const Rows& range : rows) sum += range.count;
  return sum;
}

Slice whole(const TensorSpec& spec) {
  const bool stacked = spec.shape.size() == 3;
  Slice slice{.matrices = stacked ? spec.shape[0] : 1, .source_rows = 0, .rows = {}, .cols = spec.cols()};
  // Of a tensor without elements the other dimensions may be any, and their product no number.
  const bool none = num_elements(spec.shape) == 0;
  slice.source_rows = stacked                  ? spec.shape[1]
                      : spec.shape.size() == 2 ? spec.shape[0]
                      : none                   ? 0
                                               : spec.rows();
  slice.rows = {{.begin = 0, .count = slice.source_rows}};
  return slice;
}

Slicer::Slicer(const Source& source, const Options& options)
    : source_(&source), size_(options.tp_size), rank_(options.tp_rank) {
  if (size_ == 0 || rank_ >= size_) {
    fail_input(fmt::format("--tp-rank {} is not below --tp-size {}", rank_, size_));
  }
  if (size_ == 1) return;
  if (source.model == nullptr) {
    fail_input(fmt::format(
        "--tp-size {}: {} has no config.json beside it, and names alone do not tell how tensors are split",
        size_, source.checkpoint->path()));
  }
  const model::Dimensions& dims = source.model->dims;
  kv_heads_ = dims.kv_heads;
  if (dims.heads % size_ != 0) {
    fail_input(fmt::format("--tp-size {}: {} attention heads do not divide by {}", size_, dims.heads, size_));
  }
  note_vocabulary();
  if (kv_heads_ == 0 || kv_heads_ % size_ == 0) return;
  if (kv_heads_ > size_ || size_ % kv_heads_ != 0) {
    fail_input(fmt::format("--tp-size {}: {} key-value heads neither divide by {} nor divide it", size_,
                           kv_heads_, size_));
  }
  notes_.push_back(
      fmt::format("{} key-value heads are fewer than {} ranks: each is on {} ranks, and this one has head {}",
                  kv_heads_, size_, size_ / kv_heads_, rank_ / (size_ / kv_heads_)));
}

void Slicer::note_vocabulary() {
  const std::uint64_t rows = source_->model->dims.vocab;
  const std::uint64_t padded = model::padded_rows(rows, model::kEngineVocabularyMultiple);
  if (padded % size_ != 0) {
    fail_input(fmt::format("--tp-size {}: a vocabulary of {} rows, padded to {}, does not divide by {}",
                           size_, rows, padded, size_));
  }
  if (padded == rows) return;
  const std::uint64_t part = padded / size_, begin = std::min(rows, rank_ * part);
  notes_.push_back(
      fmt::format("the vocabulary's {} rows are padded to {}, so each rank has {}; of this one {} "
                  "are zeros",
                  rows, padded, part, part - std::min(part, rows - begin)));
}

Slice Slicer::slice(const SourceTensor& tensor, bool quantized) const {
  Slice slice = whole(*tensor.spec);
  if (size_ > 1) cut(tensor, quantized, slice);
  return slice;
}

std::string Slicer::refusal(const SourceTensor& tensor) const {
  return fmt::format("{} {} cannot be split for --tp-size {}", source_->place(tensor),
                     to_string(tensor.spec->shape), size_);
}

void Slicer::keep_part(const SourceTensor& tensor, Slice::Rows& rows) const {
  if (rows.count % size_ != 0) {
    fail_input(fmt::format("{}: its {} rows do not divide by {}", refusal(tensor), rows.count, size_));
  }
  rows.count /= size_;
  rows.begin += rank_ * rows.count;
}

/// Rows beyond the model's vocabulary are what a trainer padded it with, and no engine's.
void Slicer::keep_vocabulary(const SourceTensor& tensor, Slice& slice) const {
  const std::uint64_t rows = source_->model->dims.vocab;
  if (slice.source_rows < rows) {
    fail_input(fmt::format("{}: its {} rows are fewer than the {} of config.json's vocabulary",
                           refusal(tensor), slice.source_rows, rows));
  }
  const std::uint64_t part = model::padded_rows(rows, model::kEngineVocabularyMultiple) / size_;
  const std::uint64_t begin = std::min(rows, rank_ * part), count = std::min(part, rows - begin);
  slice.rows = {{.begin = begin, .count = count}};
  slice.zero_rows = part - count;
}

void Slicer::keep_key_value_head(const SourceTensor& tensor, Slice::Rows& rows) const {
  if (kv_heads_ >= size_ || kv_heads_ == 0) return keep_part(tensor, rows);
  if (rows.count % kv_heads_ != 0) {
    fail_input(fmt::format("{}: its {} rows are not {} heads", refusal(tensor), rows.count, kv_heads_));
  }
  rows.count /= kv_heads_;
  rows.begin += rank_ / (size_ / kv_heads_) * rows.count;
}

void Slicer::keep_columns(const SourceTensor& tensor, bool quantized, Slice& slice) const {
  if (slice.cols % size_ != 0) {
    fail_input(fmt::format("{}: its {} columns do not divide by {}", refusal(tensor), slice.cols, size_));
  }
  const std::uint64_t part = slice.cols / size_;
  if ((quantized || tensor.mxfp8()) && part % quant::kBlock != 0) {
    fail_input(
        fmt::format("{}: {} columns a rank ({} / {}) are not a multiple of {}, so a block would be cut",
                    refusal(tensor), part, slice.cols, size_, quant::kBlock));
  }
  slice.cols = part;
  slice.col = rank_ * part;
}

void Slicer::cut(const SourceTensor& tensor, bool quantized, Slice& slice) const {
  if (tensor.model == nullptr) {
    fail_input(fmt::format("{}: the model has no tensor of this name", refusal(tensor)));
  }
  Slice::Rows& rows = slice.rows.front();
  const model::Split split = model::split_of(*tensor.model, source_->model->dims);
  const std::size_t has = tensor.spec->shape.size(), wanted = tensor.model->spec.shape.size();
  if (split != model::Split::whole && has != wanted) {
    fail_input(
        fmt::format("{}: it has {} dimensions, and in config.json's model {}", refusal(tensor), has, wanted));
  }
  switch (split) {
    case model::Split::whole:
      return;
    case model::Split::rows:
      return keep_part(tensor, rows);
    case model::Split::head_rows:
      return keep_key_value_head(tensor, rows);
    case model::Split::vocab_rows:
      return keep_vocabulary(tensor, slice);
    case model::Split::columns:
    case model::Split::slab_columns:
      return keep_columns(tensor, quantized, slice);
    case model::Split::halves: {
      const std::uint64_t half = rows.count / 2;
      slice.rows = {{.begin = 0, .count = half}, {.begin = half, .count = rows.count - half}};
      for (Slice::Rows& part : slice.rows) keep_part(tensor, part);
      return;
    }
    case model::Split::unknown:
      fail_input(fmt::format("{}: how a tensor of kind {} is split is not known here", refusal(tensor),
                             model::name_of(tensor.model->kind)));
  }
}

}  // namespace refit::convert
