// Every transfer of a plan, one after the other.
#include "reshard/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "refit/base/error.hpp"
#include "reshard/cuts.hpp"
#include "reshard/order.hpp"
#include "reshard/rounds.hpp"
#include "reshard/senders.hpp"

namespace refit::reshard {
namespace {

/// Minutes of planning; the largest plans that somebody runs have a tenth of it.
constexpr std::uint64_t kMostTransfers = std::uint64_t{1} << 30;

class Sweep {
 public:
  Sweep(const Problem& problem, Visitor& visitor)
      : problem_(problem),
        visitor_(visitor),
        cutter_(problem),
        senders_(problem),
        rounds_(problem.trainer.ranks(), problem.generator.ranks(), problem.options.round_bytes) {}

  Swept run() {
    const std::vector<std::uint32_t> order = tensor_order(problem_);
    for (const std::uint32_t tensor : order) count_forced(tensor);
    for (const std::uint32_t tensor : order) {
      cutter_.begin(tensor);
      while (const Cut* cut = cutter_.next()) {
        for (std::uint64_t row = 0; row < cut->box.rows;) {
          row += take_chunk(problem_, tensor, *cut, row, pieces_);
          move_chunk(tensor, *cut);
        }
      }
    }
    return {rounds_.largest_sent(), rounds_.largest_received()};
  }

 private:
  void count_forced(std::uint32_t tensor) {
    cutter_.begin(tensor);
    while (const Cut* cut = cutter_.next()) {
      const auto& receivers = problem_.generator.groups()[cut->receivers];
      std::uint64_t bytes = 0;
      for (const Piece& piece : cut->pieces) {
        const std::uint64_t piece_bytes = bytes_of(tensor, piece, cut->form).wire();
        senders_.count_forced(piece.holders, receivers, piece_bytes);
        bytes += piece_bytes;
      }
      const std::uint64_t chunks = bytes / std::max<std::uint64_t>(1, problem_.options.round_bytes);
      transfers_ += receivers.size() * (cut->pieces.size() + chunks);
    }
    if (transfers_ > kMostTransfers) {
      fail_input(
          fmt::format("the plan from {} trainer ranks to {} generator ranks has more than {} transfers",
                      problem_.trainer.ranks(), problem_.generator.ranks(), kMostTransfers));
    }
  }

  /// All pieces of some rows to every rank that needs them.
  void move_chunk(std::uint32_t tensor, const Cut& cut) {
    sizes_.clear();
    for (const Piece& piece : pieces_) sizes_.push_back(bytes_of(tensor, piece, cut.form));
    for (const std::uint32_t to : problem_.generator.groups()[cut.receivers]) {
      moves_.clear();
      sends_.clear();
      for (std::size_t i = 0; i < pieces_.size(); ++i) {
        const Senders::Sender sender = senders_.choose(pieces_[i].holders, to, sizes_[i].wire());
        const bool local = senders_.is_local(sender.rank, to);
        moves_.push_back(
            {{tensor, pieces_[i].box, sender.rank, to, 0, cut.form}, sizes_[i].wire(), local, sender.chosen});
        if (!local || problem_.options.stage_local) sends_.push_back({sender.rank, sizes_[i].aligned()});
      }
      const std::uint32_t round = rounds_.place(to, sends_);
      for (Move& move : moves_) {
        move.transfer.round = round;
        visitor_.visit(move);
      }
    }
  }

  [[nodiscard]] BoxBytes bytes_of(std::uint32_t tensor, const Piece& piece, Form form) const {
    return box_bytes(piece.box.elements(), form, problem_.model.tensors[tensor].spec.dtype);
  }

  const Problem& problem_;
  Visitor& visitor_;
  Cutter cutter_;
  Senders senders_;
  Rounds rounds_;
  std::uint64_t transfers_ = 0;  ///< at least
  // Kept so that no step allocates.
  std::vector<Piece> pieces_;
  std::vector<BoxBytes> sizes_;
  std::vector<Move> moves_;
  std::vector<Rounds::Send> sends_;
};

}  // namespace

Swept sweep(const Problem& problem, Visitor& visitor) {
  if (problem.quantized.size() != problem.model.tensors.size()) {
    fail_input(fmt::format("a plan of {} tensors takes one flag for each of them, not {}",
                           problem.model.tensors.size(), problem.quantized.size()));
  }
  return Sweep(problem, visitor).run();
}

}  // namespace refit::reshard
