// Every refusal of a division, with its numbers.
#include "reshard/divisible.hpp"

#include <fmt/format.h>

#include "refit/base/error.hpp"
#include "refit/quant/mxfp8.hpp"

namespace refit::reshard {

using model::Kind;
using model::Split;
using model::Tensor;

void Divisible::refuse(const Tensor& tensor, const std::string& reason) const {
  fail_input(
      fmt::format("{}: {} {}: {}", what_, tensor.spec.name, refit::to_string(tensor.spec.shape), reason));
}

void Divisible::check_model() const {
  const std::uint64_t ep = parallelism_.ep;
  if (ep > 1 && (dims_.experts == 0 || dims_.experts % ep != 0)) {
    fail_input(
        fmt::format("{}: the model's {} experts a layer do not divide by ep={}", what_, dims_.experts, ep));
  }
}

void Divisible::check_part(const Tensor& tensor, std::uint64_t size, std::string_view unit) const {
  if (size % parts(tensor) == 0) return;
  refuse(tensor, fmt::format("its {} {} do not divide by {}={}", size, unit, key(tensor), parts(tensor)));
}

void Divisible::check_heads(const Tensor& tensor) const {
  const bool attention = tensor.kind == Kind::attention_q || tensor.kind == Kind::attention_o ||
                         tensor.kind == Kind::attention_bias || tensor.kind == Kind::attention_other;
  if (!attention || dims_.heads % parallelism_.tp == 0) return;
  refuse(tensor, fmt::format("{} attention heads do not divide by tp={}", dims_.heads, parallelism_.tp));
}

void Divisible::check_kv_heads(const Tensor& tensor) const {
  const std::uint64_t heads = dims_.kv_heads, tp = parallelism_.tp;
  if (heads % tp == 0) return check_part(tensor, tensor.spec.rows(), "rows");
  if (!replicates_kv_heads_) {
    refuse(tensor, fmt::format("{} key-value heads do not divide by tp={}, and no trainer replicates them",
                               heads, tp));
  }
  if (heads > tp || tp % heads != 0) {
    refuse(tensor, fmt::format("{} key-value heads neither divide by tp={} nor divide it", heads, tp));
  }
  if (tensor.spec.rows() % heads != 0) {
    refuse(tensor, fmt::format("its {} rows are not {} key-value heads", tensor.spec.rows(), heads));
  }
}

void Divisible::check_slab(const Tensor& tensor) const {
  const Shape& shape = tensor.spec.shape;
  if (shape.empty() || shape[0] != dims_.experts) {
    refuse(tensor, fmt::format("this is no slab of the model's {} experts", dims_.experts));
  }
}

void Divisible::check_columns(const Tensor& tensor, bool quantized) const {
  const std::uint64_t cols = tensor.spec.cols();
  check_part(tensor, cols, "columns");
  const std::uint64_t mine = cols / parts(tensor);
  if (quantized && mine % quant::kBlock != 0) {
    refuse(tensor, fmt::format("{} columns a rank ({} over {}={}) are no multiple of {}, so a block of MXFP8 "
                               "would be cut",
                               mine, cols, key(tensor), parts(tensor), quant::kBlock));
  }
}

void Divisible::check_tensor(const Tensor& tensor, Split split, bool quantized) const {
  if (routed(tensor) && tensor.expert < 0) check_slab(tensor);
  if (tensor.expert >= 0 && static_cast<std::uint64_t>(tensor.expert) >= dims_.experts) {
    refuse(tensor, fmt::format("it belongs to expert {}, but the model has {} experts", tensor.expert,
                               dims_.experts));
  }
  if (parts(tensor) == 1) return;
  switch (split) {
    case Split::whole:
    case Split::vocab_rows:
      return;
    case Split::rows:
      check_heads(tensor);
      return check_part(tensor, tensor.spec.rows(), "rows");
    case Split::head_rows:
      return check_kv_heads(tensor);
    case Split::columns:
      check_heads(tensor);
      return check_columns(tensor, quantized);
    case Split::halves:
      if (tensor.spec.shape[1] % 2 != 0) {
        refuse(tensor, fmt::format("its {} rows an expert are no gate above an up", tensor.spec.shape[1]));
      }
      return check_part(tensor, tensor.spec.shape[1] / 2, "gate rows an expert");
    case Split::slab_columns:
      return check_columns(tensor, quantized);
    case Split::unknown:
      refuse(tensor, fmt::format("how a tensor of kind {} is divided is not known here; {}=1 leaves it whole",
                                 model::name_of(tensor.kind), key(tensor)));
  }
}

}  // namespace refit::reshard
