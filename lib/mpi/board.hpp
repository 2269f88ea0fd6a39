// What the ranks of one host do now, where all of them can read it, and whether they still live.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "refit/transport/unix_channel.hpp"

namespace refit::mpi {

class Board {
 public:
  /// Collective over `world`.
  explicit Board(MPI_Comm world);
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  ~Board();

  /// This rank among those of its host, and how many these are.
  [[nodiscard]] std::uint32_t host_rank() const noexcept { return host_rank_; }
  [[nodiscard]] std::uint32_t host_size() const noexcept { return static_cast<std::uint32_t>(lines_.size()); }
  void write(std::string_view doing) noexcept;
  /// "rank 2 (moving weights)"; a rank of another host by its number alone.
  [[nodiscard]] std::string describe(int rank) const;
  /// Another rank of this host, and a descriptor that poll() finds readable when its process has ended.
  struct Peer {
    int rank = 0;
    transport::UniqueFd process;
  };
  [[nodiscard]] const std::vector<Peer>& peers() const noexcept { return peers_; }
  [[nodiscard]] std::string doing(int rank) const;

 private:
  /// A line of the board; the text ends with a zero byte, and a torn one is no worse than an old one.
  struct Line {
    std::int32_t rank, process;
    char doing[120];
  };
  [[nodiscard]] const Line* find(int rank) const noexcept;

  MPI_Comm host_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  std::uint32_t host_rank_ = 0;
  Line* own_ = nullptr;
  std::vector<Line*> lines_;
  std::vector<Peer> peers_;
};

}  // namespace refit::mpi
