// Column-parallel tensors lose rows, row-parallel ones columns, the rest is whole on every rank.
// Source: vLLM's ColumnParallelLinear, QKVParallelLinear, RowParallelLinear and VocabParallelEmbedding.
#include "convert/slice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "refit/base/error.hpp"

namespace refit::convert {
namespace {

using model::Kind;

/// Of a name like "model.layers.0.self_attn.q_b_proj.weight": "q_b_proj".
std::string_view module_of(std::string_view name) {
  const std::size_t suffix = name.rfind('.');
  if (suffix == std::string_view::npos || suffix == 0) return {};
  const std::size_t module = name.rfind('.', suffix - 1);
  return name.substr(module == std::string_view::npos ? 0 : module + 1,
                     suffix - (module == std::string_view::npos ? 0 : module + 1));
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

std::uint64_t Slice::matrix_rows() const noexcept {
  std::uint64_t sum = 0;
  for (const Rows& range : rows) sum += range.count;
  return sum;
}

Slice whole(const TensorSpec& spec) {
  const bool stacked = spec.shape.size() == 3;
  Slice slice{.matrices = stacked ? spec.shape[0] : 1, .source_rows = 0, .rows = {}, .cols = spec.cols()};
  slice.source_rows = stacked ? spec.shape[1] : spec.rows();
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
  if (kv_heads_ == 0 || kv_heads_ % size_ == 0) return;
  if (kv_heads_ > size_ || size_ % kv_heads_ != 0) {
    fail_input(fmt::format("--tp-size {}: {} key-value heads neither divide by {} nor divide it", size_,
                           kv_heads_, size_));
  }
  notes_.push_back(
      fmt::format("{} key-value heads are fewer than {} ranks: each is on {} ranks, and this one has head {}",
                  kv_heads_, size_, size_ / kv_heads_, rank_ / (size_ / kv_heads_)));
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

/// Latent attention: what comes out by heads is split, what is shared by all heads is not.
void Slicer::cut_by_name(const SourceTensor& tensor, Slice& slice) const {
  const std::string_view module = module_of(tensor.spec->name);
  if (is_one_of(module, {"q_proj", "q_b_proj", "kv_b_proj"})) return keep_part(tensor, slice.rows.front());
  if (is_one_of(module, {"q_a_proj", "kv_a_proj_with_mqa"})) return;
  fail_input(fmt::format("{}: how a tensor of kind {} is split is not known here", refusal(tensor),
                         model::name_of(tensor.model->kind)));
}

void Slicer::cut(const SourceTensor& tensor, bool quantized, Slice& slice) const {
  if (tensor.model == nullptr) {
    fail_input(fmt::format("{}: the model has no tensor of this name", refusal(tensor)));
  }
  Slice::Rows& rows = slice.rows.front();
  switch (tensor.model->kind) {
    case Kind::attention_q:
    case Kind::mlp_gate:
    case Kind::mlp_up:
    case Kind::shared_gate:
    case Kind::shared_up:
    case Kind::expert_gate:
    case Kind::expert_up:
    case Kind::embedding:
    case Kind::lm_head:
      return keep_part(tensor, rows);
    case Kind::attention_k:
    case Kind::attention_v:
      return keep_key_value_head(tensor, rows);
    case Kind::attention_o:
    case Kind::mlp_down:
    case Kind::shared_down:
    case Kind::expert_down:
      return keep_columns(tensor, quantized, slice);
    case Kind::attention_bias: {
      const std::string_view module = module_of(tensor.spec->name);
      if (module == "q_proj") return keep_part(tensor, rows);
      if (is_one_of(module, {"k_proj", "v_proj"})) return keep_key_value_head(tensor, rows);
      return;  // of the output projection, and of what latent attention shares
    }
    case Kind::attention_other:
      return cut_by_name(tensor, slice);
    case Kind::expert_gate_up_slab:
    case Kind::expert_down_slab: {
      if (source_->model->dims.slabs != model::SlabForm::rows || tensor.spec->shape.size() != 3) {
        fail_input(fmt::format("{}: this slab of all experts keeps K in the middle", refusal(tensor)));
      }
      if (tensor.model->kind == Kind::expert_down_slab) return keep_columns(tensor, quantized, slice);
      const std::uint64_t half = rows.count / 2;
      slice.rows = {{.begin = 0, .count = half}, {.begin = half, .count = rows.count - half}};
      for (Slice::Rows& part : slice.rows) keep_part(tensor, part);
      return;
    }
    case Kind::mamba:
    case Kind::expert_bias_slab:
      fail_input(fmt::format("{}: how a tensor of kind {} is split is not known here", refusal(tensor),
                             model::name_of(tensor.model->kind)));
    case Kind::norm:
    case Kind::shared_router:
    case Kind::router:
    case Kind::router_bias:
    case Kind::mtp_other:
      return;
  }
}

}  // namespace refit::convert
