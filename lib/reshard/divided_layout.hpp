// Tensor, pipeline, data and expert parallelism: the boxes of a tensor and who holds them, on both sides.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "refit/model/split.hpp"
#include "reshard/ranks.hpp"
#include "reshard/sharded_layout.hpp"
#include "reshard/stages.hpp"

namespace refit::reshard {

/// Where the two sides and their forms differ.
struct Rules {
  Side side = Side::trainer;
  std::uint64_t vocabulary_multiple =
      0;  ///< rows are padded to it; 0: not at all, divided as torch.chunk does
  bool replicates_kv_heads = false;
  Remainder remainder = Remainder::first_stages;
};

class DividedLayout : public ShardedLayout {
 public:
  /// `quantized`: one flag a tensor, or none at all. Throws Error(input) for everything that cannot be
  /// divided.
  DividedLayout(const model::Inventory& model, Parallelism parallelism, const Rules& rules,
                const std::vector<bool>& quantized);
  void shards(std::uint32_t tensor, std::vector<Shard>& shards) const override;

 protected:
  [[nodiscard]] const Stages& stages() const noexcept { return *stages_; }
  [[nodiscard]] std::uint64_t padded_rows(std::uint32_t tensor, std::uint32_t rank) const override;
  /// Experts of a layer that one rank holds.
  [[nodiscard]] std::uint64_t experts_per_rank() const noexcept {
    return model().dims.experts / parallelism_.ep;
  }
  /// Key-value heads that one rank holds, 0 where the model has none.
  [[nodiscard]] std::uint64_t kv_heads_per_rank() const noexcept;
  /// Rows of the vocabulary's part number `tp`; the real ones among them.
  [[nodiscard]] std::uint64_t vocabulary_part(std::uint64_t rows) const noexcept;
  [[nodiscard]] Box vocabulary_box(const TensorSpec& spec, std::uint64_t tp) const noexcept;

 private:
  struct Entry {
    model::Split split = model::Split::whole;
    bool routed = false;
    std::uint32_t home = 0;
  };
  void add_notes();
  [[nodiscard]] bool kv_replicated() const noexcept;
  [[nodiscard]] std::uint32_t home_of(const model::Tensor& tensor) const;
  void dense_shards(const Entry& entry, const TensorSpec& spec, std::vector<Shard>& shards) const;
  void expert_shards(const Entry& entry, const model::Tensor& tensor, std::vector<Shard>& shards) const;
  void slab_shards(const Entry& entry, const TensorSpec& spec, std::vector<Shard>& shards) const;

  Rules rules_;
  std::optional<Stages> stages_;
  std::optional<Holders> holders_;
  std::vector<Entry> entries_;  // of each tensor
};

}  // namespace refit::reshard
