// Group, exchange and end over the mesh.
#include <cstdlib>
#include <utility>

#include "refit/transport/tcp.hpp"
#include "transport/tcp_control.hpp"
#include "transport/tcp_exchange.hpp"
#include "transport/tcp_mesh.hpp"

namespace refit::transport::tcp {
namespace {

class TcpGroup : public Group {
 public:
  explicit TcpGroup(Control& control) : control_(control) {}
  [[nodiscard]] std::uint32_t rank() const noexcept override { return control_.rank(); }
  [[nodiscard]] std::uint32_t size() const noexcept override { return control_.size(); }
  [[nodiscard]] std::vector<std::string> all_gather(std::string_view mine, Deadline deadline) override {
    return control_.all_gather(mine, deadline);
  }
  void doing(std::string_view what) noexcept override { control_.doing(what); }

 private:
  Control& control_;
};

class TcpSession : public Session {
 public:
  TcpSession(std::uint32_t rank, Mesh mesh, OnLoss on_loss)
      : mesh_(std::move(mesh)), control_(rank, std::move(mesh_.control), std::move(on_loss)) {}

  [[nodiscard]] std::unique_ptr<Group> group() override { return std::make_unique<TcpGroup>(control_); }
  [[nodiscard]] std::unique_ptr<Exchange> exchange() override {
    return std::make_unique<TcpExchange>(control_, mesh_.data);
  }
  [[nodiscard]] std::uint32_t local_rank() const noexcept override { return mesh_.local_rank; }
  [[nodiscard]] std::uint32_t ranks_on_this_host() const noexcept override {
    return mesh_.ranks_on_this_host;
  }
  [[noreturn]] void abort(int exit_code) noexcept override {
    control_.tell_ending();
    std::_Exit(exit_code);
  }

 private:
  Mesh mesh_;
  Control control_;
};

}  // namespace

std::unique_ptr<Session> join_at(const Place& place, std::vector<UniqueFd> listeners, OnLoss on_loss,
                                 Deadline deadline) {
  return std::make_unique<TcpSession>(place.rank, meet(place, std::move(listeners), deadline),
                                      std::move(on_loss));
}

std::unique_ptr<Session> join(const Place& place, OnLoss on_loss, Deadline deadline) {
  std::vector<UniqueFd> listeners;
  if (place.rank == 0 && place.size > 1) listeners = listen_at(place.host, place.port);
  return join_at(place, std::move(listeners), std::move(on_loss), deadline);
}

}  // namespace refit::transport::tcp
