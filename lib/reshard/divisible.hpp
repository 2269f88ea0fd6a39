// Refuses what tensor and expert parallelism cannot divide, tensor by tensor.
#pragma once

#include <string>

#include "refit/model/inventory.hpp"
#include "refit/model/split.hpp"
#include "refit/reshard/parallelism.hpp"

namespace refit::reshard {

class Divisible {
 public:
  /// `what` begins every sentence.
  Divisible(const model::Dimensions& dims, const Parallelism& parallelism, bool replicates_kv_heads,
            std::string what)
      : dims_(dims),
        parallelism_(parallelism),
        replicates_kv_heads_(replicates_kv_heads),
        what_(std::move(what)) {}

  /// Throws Error(input) for experts that do not divide by ep.
  void check_model() const;
  /// Throws Error(input) naming tensor and numbers. `quantized`: columns divide into whole blocks only.
  void check_tensor(const model::Tensor& tensor, model::Split split, bool quantized) const;

 private:
  [[noreturn]] void refuse(const model::Tensor& tensor, const std::string& reason) const;
  void check_heads(const model::Tensor& tensor) const;
  void check_kv_heads(const model::Tensor& tensor) const;
  void check_slab(const model::Tensor& tensor) const;
  void check_part(const model::Tensor& tensor, std::uint64_t size, std::string_view unit) const;
  void check_columns(const model::Tensor& tensor, bool quantized) const;
  [[nodiscard]] bool routed(const model::Tensor& tensor) const {
    return model::is_routed_expert(tensor.kind);
  }
  [[nodiscard]] std::uint64_t parts(const model::Tensor& tensor) const {
    return routed(tensor) ? parallelism_.etp : parallelism_.tp;
  }
  [[nodiscard]] std::string_view key(const model::Tensor& tensor) const {
    return routed(tensor) ? "etp" : "tp";
  }

  const model::Dimensions& dims_;
  const Parallelism& parallelism_;
  bool replicates_kv_heads_;
  std::string what_;
};

}  // namespace refit::reshard
