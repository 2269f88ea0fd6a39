// Ranks whose weights are on one GPU: threads of this process, whose messages go through host memory.
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "support/backends.hpp"
#include "support/catch.hpp"
#include "support/tiny_ranks.hpp"

using namespace refit;
using namespace refit::test;

namespace {

device::Choice on_gpu() {
  device::Choice choice = tested_backend();
  choice.transport = device::Transport::cuda_vmm;  // which opens within one process, too
  return choice;
}

std::unique_ptr<device::Backend> on_host(const device::Choice&) {
  return device::make_host_backend(1);
}

/// Device memory by way of copies that an exchange of host memory moves.
class ThroughHost : public transport::Exchange {
 public:
  explicit ThroughHost(transport::Exchange& exchange)
      : exchange_(exchange), backend_(make_backend(on_gpu())) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "host"; }
  void start(unsigned slot, std::span<const transport::Part> sends,
             std::span<const transport::Part> receives) override {
    Round& round = rounds_.at(slot);
    round = {};
    for (const transport::Part& part : sends) {
      round.sends.emplace_back(part.bytes.size());
      backend_->read(round.sends.back(), part.bytes.data());
    }
    for (const transport::Part& part : receives) round.receives.emplace_back(part.bytes.size());
    round.wanted.assign(receives.begin(), receives.end());
    exchange_.start(slot, parts(sends, round.sends), parts(receives, round.receives));
  }
  void wait(unsigned slot, Deadline deadline) override {
    exchange_.wait(slot, deadline);
    const Round& round = rounds_.at(slot);
    for (std::size_t i = 0; i < round.wanted.size(); ++i) {
      backend_->write(round.wanted[i].bytes.data(), round.receives[i]);
    }
  }

 private:
  using Buffers = std::vector<std::vector<std::byte>>;
  struct Round {
    Buffers sends, receives;
    std::vector<transport::Part> wanted;
  };
  static std::vector<transport::Part> parts(std::span<const transport::Part> like, Buffers& buffers) {
    std::vector<transport::Part> parts;
    for (std::size_t i = 0; i < like.size(); ++i) parts.push_back({like[i].peer, buffers[i]});
    return parts;
  }

  transport::Exchange& exchange_;
  std::unique_ptr<device::Backend> backend_;
  std::array<Round, kSlots> rounds_;
};

ranks::Result bench_on_gpu(ranks::Spec spec) {
  spec.bench.backend = on_gpu();
  return bench_ranks(spec, make_backend, [](transport::Exchange& exchange, std::uint32_t) {
    return std::make_unique<ThroughHost>(exchange);
  });
}

struct Way {
  const char* name;
  bool peer_memory, broadcast;
};

}  // namespace

TEST_CASE("ranks on a GPU get the bytes that ranks on the host get, whichever way they come") {
  for (const auto& [train, gen] :
       {std::pair("ep=2", "dp=2"), std::pair("ep=2", "tp=2"), std::pair("ep=4", "tp=2,dp=2"),
        std::pair("tp=2,pp=2", "ep=4,tp=4"), std::pair("fsdp=2", "tp=2")}) {
    ranks::Spec spec = tiny_ranks(train, gen, kStaged, kDirect);
    const ranks::Result host = bench_ranks(spec, on_host);
    for (const Way& way :
         {Way{"host", false, false}, Way{"host+peer", true, false}, Way{"host-broadcast", false, true}}) {
      CAPTURE(train, gen, way.name);
      spec.peer_memory = way.peer_memory;
      spec.broadcast = way.broadcast;
      const ranks::Result result = bench_on_gpu(spec);
      CHECK(result.exchange == way.name);
      for (const auto& [arm, same] : {std::pair(&result.bench.control, &host.bench.control),
                                      std::pair(&result.bench.treatment, &host.bench.treatment)}) {
        CHECK(complaints(*arm) == "");
        CHECK(arm->verified_refits == 2);
        CHECK(arm->parameters_digest == same->parameters_digest);
      }
      for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
        CHECK(result.ranks[rank].treatment.parameters_digest == host.ranks[rank].treatment.parameters_digest);
      }
    }
  }
}

TEST_CASE("a rank that is simulated on a GPU gets the bytes of the real one") {
  ranks::Spec spec = tiny_ranks("ep=4", "tp=2,dp=2", kStaged, kDirect);
  const ranks::Result host = bench_ranks(spec, on_host);
  spec.bench.backend = on_gpu();
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    spec.simulated_rank = rank;
    const ranks::Result result = ranks::run_simulated(spec, make_backend);
    CHECK(complaints(result.bench.control) == "");
    CHECK(complaints(result.bench.treatment) == "");
    CHECK(result.ranks[0].control.parameters_digest == host.ranks[rank].control.parameters_digest);
    CHECK(result.ranks[0].treatment.parameters_digest == host.ranks[rank].treatment.parameters_digest);
  }
}
