// The table of splits. Latent attention: what comes out by heads is divided, what all heads share is not.
#include "refit/model/split.hpp"

#include "model/module_name.hpp"

namespace refit::model {
namespace {

Split latent(std::string_view module) {
  if (module == "q_proj" || module == "q_b_proj" || module == "kv_b_proj") return Split::rows;
  if (module == "q_a_proj" || module == "kv_a_proj_with_mqa") return Split::whole;
  return Split::unknown;
}

/// A bias follows the rows of its weight; that of a row-parallel weight is added once, so it is whole.
Split bias(std::string_view module) {
  if (module == "q_proj") return Split::rows;
  return module == "k_proj" || module == "v_proj" ? Split::head_rows : Split::whole;
}

Split slab(const Tensor& tensor, const Dimensions& dims) {
  if (dims.slabs != SlabForm::rows || tensor.spec.shape.size() != 3) return Split::unknown;
  return tensor.kind == Kind::expert_down_slab ? Split::slab_columns : Split::halves;
}

}  // namespace

Split split_of(const Tensor& tensor, const Dimensions& dims) {
  switch (tensor.kind) {
    case Kind::embedding:
    case Kind::lm_head:
      return Split::vocab_rows;
    case Kind::attention_q:
    case Kind::mlp_gate:
    case Kind::mlp_up:
    case Kind::shared_gate:
    case Kind::shared_up:
    case Kind::expert_gate:
    case Kind::expert_up:
      return Split::rows;
    case Kind::attention_k:
    case Kind::attention_v:
      return Split::head_rows;
    case Kind::attention_o:
    case Kind::mlp_down:
    case Kind::shared_down:
    case Kind::expert_down:
      return Split::columns;
    case Kind::attention_bias:
      return bias(module_of(tensor.spec.name));
    case Kind::attention_other:
      return latent(module_of(tensor.spec.name));
    case Kind::expert_gate_up_slab:
    case Kind::expert_down_slab:
      return slab(tensor, dims);
    case Kind::norm:
    case Kind::shared_router:
    case Kind::router:
    case Kind::router_bias:
      return Split::whole;
    case Kind::mtp_other: {  // its own embedding and head are an embedding and a head like the model's
      const std::string_view module = module_of(tensor.spec.name);
      return module == "embed_tokens" || module == "head" ? Split::vocab_rows : Split::whole;
    }
    case Kind::expert_bias_slab:
    case Kind::mamba:
      return Split::unknown;
  }
  return Split::unknown;
}

bool is_routed_expert(Kind kind) noexcept {
  switch (kind) {
    case Kind::expert_gate:
    case Kind::expert_up:
    case Kind::expert_down:
    case Kind::expert_gate_up_slab:
    case Kind::expert_down_slab:
    case Kind::expert_bias_slab:
      return true;
    default:
      return false;
  }
}

}  // namespace refit::model
