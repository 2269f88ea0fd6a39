// A shared window of MPI, and a descriptor for each process.
#include "mpi/board.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "transport/rank_words.hpp"

namespace refit::mpi {

Board::Board(MPI_Comm world) {
  int rank = 0, size = 0, host_rank = 0;
  MPI_Comm_rank(world, &rank);
  MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host_);
  MPI_Comm_size(host_, &size);
  MPI_Comm_rank(host_, &host_rank);
  host_rank_ = static_cast<std::uint32_t>(host_rank);
  MPI_Win_allocate_shared(sizeof(Line), 1, MPI_INFO_NULL, host_, &own_, &window_);
  *own_ = {};
  own_->rank = rank;
  own_->process = ::getpid();
  write("starting");
  MPI_Barrier(host_);
  for (int other = 0; other < size; ++other) {
    MPI_Aint bytes = 0;
    int unit = 0;
    Line* line = nullptr;
    MPI_Win_shared_query(window_, other, &bytes, &unit, &line);
    lines_.push_back(line);
    if (other == host_rank) continue;
    // Readable at the end of the process, also while nobody has collected its exit status. -1 where the
    // kernel has no such descriptors: then only the launcher notices.
    const long fd = ::syscall(SYS_pidfd_open, line->process, 0);
    peers_.push_back({line->rank, transport::UniqueFd(static_cast<int>(fd))});
  }
}

Board::~Board() {
  MPI_Win_free(&window_);
  MPI_Comm_free(&host_);
}

void Board::write(std::string_view doing) noexcept {
  const std::size_t count = std::min(doing.size(), sizeof(own_->doing) - 1);
  std::memcpy(own_->doing, doing.data(), count);
  own_->doing[count] = '\0';
}

const Board::Line* Board::find(int rank) const noexcept {
  const auto found =
      std::find_if(lines_.begin(), lines_.end(), [&](const Line* line) { return line->rank == rank; });
  return found == lines_.end() ? nullptr : *found;
}

std::string Board::doing(int rank) const {
  const Line* const line = find(rank);
  return line == nullptr ? "" : std::string(line->doing, ::strnlen(line->doing, sizeof(line->doing)));
}

std::string Board::describe(int rank) const {
  return find(rank) == nullptr ? fmt::format("rank {}", rank)
                               : transport::rank_that_does(static_cast<std::uint32_t>(rank), doing(rank));
}

}  // namespace refit::mpi
