// Joins what a Megatron rank holds of the checkpoint's tensors to the tensors that it keeps.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reshard/megatron_names.hpp"
#include "reshard/sharded_layout.hpp"

namespace refit::reshard {

class MegatronAssembly {
 public:
  /// `tp`, `kv_heads`: tensor-parallel ranks, and key-value heads that one of them holds.
  MegatronAssembly(const model::Inventory& model, std::uint64_t tp, std::uint64_t kv_heads)
      : model_(model), tp_(tp), kv_heads_(kv_heads) {}

  void add(const MegatronPlace& place, const Holding& holding);
  [[nodiscard]] Local take();

 private:
  /// Parts of one tensor, in its order; rows of a part are one box.
  struct Fused {
    std::uint32_t local = 0;
    Fusion fusion = Fusion::none;
    struct Part {
      std::uint32_t tensor = 0;
      Box box;
    };
    std::array<std::optional<Part>, 3> parts;
  };
  [[nodiscard]] const TensorSpec& spec(std::uint32_t tensor) const { return model_.tensors[tensor].spec; }
  std::uint32_t new_tensor(const std::string& name, Shape shape, DType dtype);
  void place(std::uint32_t tensor, const Box& box, std::uint32_t local, std::uint64_t local_row);
  void add_alone(const MegatronPlace& place, const Holding& holding);
  void add_slab(const MegatronPlace& place, const Holding& holding);
  void add_fused(const MegatronPlace& place, const Holding& holding);
  void join(const Fused& fused);
  [[nodiscard]] bool is_gated_query(const TensorSpec& query) const;
  void place_gated_query(const Fused::Part& part, const Box& group, std::uint32_t local, std::uint64_t row);

  const model::Inventory& model_;
  std::uint64_t tp_, kv_heads_;
  std::map<std::string, std::size_t> numbers_;  // of fused tensors, by name
  std::vector<Fused> fused_;
  Local local_;
};

}  // namespace refit::reshard
