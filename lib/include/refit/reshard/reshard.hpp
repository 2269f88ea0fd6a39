// From trainer ranks to generator ranks: which box moves from where to where, and when. Every rank computes
// the same answer alone; the digest proves it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "refit/model/inventory.hpp"
#include "refit/reshard/layout.hpp"

namespace refit::reshard {

/// What travels for a box.
enum class Form : std::uint8_t {
  as_is,           ///< the tensor's own dtype
  quantized,       ///< E4M3 values and E8M0 scales, made by the sender
  quantized_late,  ///< BF16; the receiver quantizes whole rows when all their columns have come
};

struct Options {
  bool colocated =
      true;  ///< trainer rank i and generator rank i are one process, else all are different processes
  bool prequantize = true;  ///< quantize on the trainer where blocks allow it
  /// No rank sends or receives more than this in one round; boxes are split by rows to fit. At least one row
  /// fits, else Error(input) naming tensor and row bytes.
  std::uint64_t round_bytes = 256u << 20;
  /// What stays in its process is staged in a buffer like everything else, and counts in rounds.
  bool stage_local = false;
  std::uint32_t gpus_per_node = 8;  ///< ranks of one side on one host, by number; 0: not known
};

/// One box on its way from one rank to one rank. Boxes that stay on a colocated rank (from == to) are
/// transfers, too.
struct Transfer {
  std::uint32_t tensor = 0;  ///< index into Inventory::tensors
  Box box;                   ///< of the whole tensor
  std::uint32_t from = 0;    ///< trainer rank
  std::uint32_t to = 0;      ///< generator rank
  std::uint32_t round = 0;
  Form form = Form::as_is;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

/// Bytes that a transfer puts on the wire (values and scales; without alignment).
[[nodiscard]] std::uint64_t wire_bytes(const Transfer& transfer, const model::Inventory& model);

struct RankTotals {
  std::uint64_t remote_bytes = 0;  ///< sent to (trainer) or received from (generator) other processes
  std::uint64_t local_bytes = 0;   ///< what stays in this process
  std::uint64_t messages = 0;      ///< rounds times peers with something to send
  /// Bytes of its largest round, each box aligned to 512: remote ones, with stage_local all.
  std::uint64_t largest_round = 0;
  std::uint64_t transfers = 0;
};

struct Reshard {
  Options options;
  std::vector<RankTotals> trainers, generators;
  std::vector<std::uint64_t> links;  ///< [trainer rank][generator rank] bytes, 0 on what stays local
  std::uint64_t transfers = 0;       ///< of all ranks
  std::uint64_t messages = 0;
  std::uint32_t rounds = 0;
  std::uint64_t replicated_bytes = 0;  ///< remote bytes for which there was a choice of senders
  std::uint64_t late_quantized_tensors = 0;
  std::vector<std::string> notes;  ///< of both layouts and of the plan ("... is quantized by the receiver")
  std::uint64_t digest = 0;        ///< of layouts, options and every transfer of every rank
  /// Of the rank that was asked for, by round, then in the plan's order: the same relative order on both
  /// sides.
  std::vector<Transfer> sends, receives;
};

/// Moves each element to each rank that wants it once. Among ranks that hold the same box the sender is: the
/// process itself; else the least loaded of those on the same host; else the least loaded of all. Loads are
/// remote bytes, and what has one possible sender alone is counted before any choice is made. Tensors are
/// taken so that all holders progress alike (the stages of a pipeline send at the same time), not in the
/// order of the model. `quantized`: one flag a tensor. `trainer_rank`, `generator_rank`: whose sends and
/// receives to list, if any.
[[nodiscard]] Reshard reshard(const model::Inventory& model, const std::vector<bool>& quantized,
                              const Layout& trainer, const Layout& generator, const Options& options,
                              std::optional<std::uint32_t> trainer_rank,
                              std::optional<std::uint32_t> generator_rank);

/// Every transfer of one tensor, in the plan's order.
[[nodiscard]] std::vector<Transfer> explain(const model::Inventory& model, const std::vector<bool>& quantized,
                                            const Layout& trainer, const Layout& generator,
                                            const Options& options, std::uint32_t tensor);

}  // namespace refit::reshard
