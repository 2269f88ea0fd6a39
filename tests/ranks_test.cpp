// Refits between ranks that are threads: every layout pair, every byte verified, and everything that can go
// wrong.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "refit/base/error.hpp"
#include "refit/ranks/ranks.hpp"
#include "refit/version.hpp"
#include "support/catch.hpp"
#include "support/deferring_backend.hpp"
#include "support/error_of.hpp"
#include "support/rank_suite.hpp"
#include "support/tiny_ranks.hpp"

using namespace refit;
using namespace refit::test;

namespace {

std::unique_ptr<device::Backend> host(const device::Choice&) {
  return device::make_host_backend(1);
}

/// Changes what passes through: the last byte of the n-th part that this rank sends.
class Corrupting : public transport::Exchange {
 public:
  Corrupting(transport::Exchange& exchange, int at) : exchange_(exchange), left_(at) {}
  [[nodiscard]] std::string_view name() const noexcept override { return exchange_.name(); }
  void start(unsigned slot, std::span<const transport::Part> sends,
             std::span<const transport::Part> receives) override {
    for (const transport::Part& part : sends) {
      if (left_-- == 0) part.bytes.back() ^= std::byte{1};
    }
    exchange_.start(slot, sends, receives);
  }
  void wait(unsigned slot, Deadline deadline) override { exchange_.wait(slot, deadline); }
  void abandon(Buffers buffers) noexcept override { exchange_.abandon(std::move(buffers)); }

 private:
  transport::Exchange& exchange_;
  int left_;
};

std::unique_ptr<device::Backend> deferring(const device::Choice&) {
  return std::make_unique<test::DeferringBackend>();
}

ranks::Result bench(const ranks::Spec& spec, int corrupt_at = -1,
                    const run::MakeBackend& make_backend = host) {
  return bench_ranks(spec, make_backend, [&](transport::Exchange& exchange, std::uint32_t rank) {
    return std::make_unique<Corrupting>(exchange, rank == 1 ? corrupt_at : -1);
  });
}

/// Ranks of both sides.
struct Pair {
  const char *train, *gen;
  bool colocated;

  /// Staged against direct.
  [[nodiscard]] ranks::Spec spec() const {
    ranks::Spec spec = tiny_ranks(train, gen, kStaged, kDirect);
    spec.colocated = colocated;
    return spec;
  }
};

}  // namespace

TEST_CASE("ranks of every layout get every byte, staged and direct") {
  for (const Pair& pair : std::initializer_list<Pair>{{"", "", true},
                                                      {"ep=4", "tp=2,dp=2", true},
                                                      {"ep=4", "ep=4,tp=4", true},
                                                      {"ep=4", "tp=4", true},
                                                      {"tp=2,pp=2", "dp=4", true},
                                                      {"tp=2,ep=2", "tp=2,pp=2", true},
                                                      {"fsdp=4", "tp=2,dp=2", true},
                                                      {"fsdp=3", "tp=2", false},
                                                      {"ep=2", "tp=2", false},
                                                      {"tp=2,etp=2,ep=1", "ep=2,tp=2", false},
                                                      {"ep=8", "tp=1", true}}) {
    CAPTURE(pair.train, pair.gen, pair.colocated);
    const ranks::Spec spec = pair.spec();
    const ranks::Result result = bench(spec);
    for (const run::ArmResult* arm : {&result.bench.control, &result.bench.treatment}) {
      CHECK(complaints(*arm) == "");
      CHECK(arm->verified_refits == 2);
      CHECK(arm->phases.at("prepare_for_generation/transfer_and_update_weights").seconds.size() == 2);
      CHECK(arm->verdict[verify::Check::layout].bytes > 0);
      CHECK(arm->verdict[verify::Check::quantizer].bytes > 0);
    }
    CHECK(result.bench.control.parameters_digest == result.bench.treatment.parameters_digest);
    REQUIRE(result.ranks.size() == spec.processes());
    for (const ranks::RankRow& row : result.ranks) {
      for (std::uint32_t peer = 0; peer < result.ranks.size(); ++peer) {
        CHECK(row.treatment.received[peer] == result.ranks[peer].treatment.sent[row.rank]);
      }
      CHECK(row.treatment.peak_extra_bytes <= row.treatment.most_extra_bytes);
    }
  }
}

TEST_CASE("a broadcast of every bucket to every rank gives the same bytes as messages do") {
  for (const Pair& pair : std::initializer_list<Pair>{{"ep=4", "tp=2,dp=2", true},
                                                      {"tp=2,pp=2", "ep=4,tp=4", true},
                                                      {"fsdp=3", "tp=2", false},
                                                      {"tp=2,etp=2,ep=1", "ep=2,tp=2", false}}) {
    CAPTURE(pair.train, pair.gen, pair.colocated);
    ranks::Spec spec = tiny_ranks(pair.train, pair.gen, kStaged, "pipeline=staged,prequantize=on");
    spec.colocated = pair.colocated;
    const ranks::Result messages = bench(spec);
    spec.broadcast = true;
    for (const run::MakeBackend& make_backend : {run::MakeBackend(host), run::MakeBackend(deferring)}) {
      const ranks::Result result = bench(spec, -1, make_backend);
      CHECK(result.exchange == "threads-broadcast");
      for (const auto& [arm, other] : {std::pair(&result.bench.control, &messages.bench.control),
                                       std::pair(&result.bench.treatment, &messages.bench.treatment)}) {
        CHECK(complaints(*arm) == "");
        CHECK(arm->verified_refits == 2);
        CHECK(arm->parameters_digest == other->parameters_digest);
        CHECK(arm->wire_bytes > other->wire_bytes);
      }
      // Everybody hears everything.
      for (const ranks::RankRow& row : result.ranks) {
        CHECK(row.control.received == result.ranks[0].control.received);
        for (std::uint32_t peer = 0; peer < result.ranks.size(); ++peer) {
          CHECK(row.control.received[peer] == result.ranks[peer].control.sent[row.rank]);
        }
      }
    }
    CHECK(complaints(bench(spec, 2).bench.control) != "");
  }
}

TEST_CASE("a simulated rank gets the bytes that it would get from others") {
  for (const Pair& pair : std::initializer_list<Pair>{{"ep=4", "tp=2,dp=2", true},
                                                      {"tp=2,pp=2", "dp=4", true},
                                                      {"fsdp=3", "tp=2", false},
                                                      {"ep=2", "tp=2", false}}) {
    CAPTURE(pair.train, pair.gen, pair.colocated);
    ranks::Spec spec = pair.spec();
    const ranks::Result whole = bench(spec);
    const std::uint32_t first = pair.colocated ? 0 : spec.trainer.ranks();
    for (const std::uint32_t rank : {first, spec.processes() - 1}) {
      CAPTURE(rank);
      spec.simulated_rank = rank;
      for (const run::MakeBackend& make_backend : {run::MakeBackend(host), run::MakeBackend(deferring)}) {
        const ranks::Result result = ranks::run_simulated(spec, make_backend);
        CHECK(result.exchange == "simulated");
        CHECK(result.simulated_rank == rank);
        REQUIRE(result.ranks.size() == 1);
        const ranks::RankRow &row = result.ranks[0], &real = whole.ranks[rank];
        CHECK(row.rank == rank);
        for (const auto& [arm, same] :
             {std::pair(&row.control, &real.control), std::pair(&row.treatment, &real.treatment)}) {
          CHECK(arm->received == same->received);
          CHECK(arm->sent == same->sent);
          CHECK(arm->parameters_digest == same->parameters_digest);
          CHECK(arm->most_extra_bytes == same->most_extra_bytes);
        }
        for (const run::ArmResult* arm : {&result.bench.control, &result.bench.treatment}) {
          CHECK(complaints(*arm) == "");
          CHECK(arm->verified_refits == 2);
          CHECK(arm->verdict[verify::Check::wire].bytes > 0);
          CHECK(arm->verdict[verify::Check::layout].bytes > 0);
        }
      }
    }
    if (!pair.colocated) {
      spec.simulated_rank = 0;
      check_input_error([&] { (void)ranks::run_simulated(spec, host); }, "only sends");
    }
    spec.simulated_rank = spec.processes();
    check_input_error([&] { (void)ranks::run_simulated(spec, host); }, "counted from 0");
    spec.simulated_rank = first;
    spec.peer_memory = true;
    check_input_error([&] { (void)ranks::run_simulated(spec, host); }, "has no peers");
  }
}

TEST_CASE("direct writes into other ranks' parameters give the same bytes as messages do") {
  for (const Pair& pair : std::initializer_list<Pair>{{"ep=2", "dp=2", true},
                                                      {"ep=2", "tp=2", true},
                                                      {"ep=4", "tp=2,dp=2", true},
                                                      {"tp=2,pp=2", "ep=4,tp=4", true},
                                                      {"tp=2,ep=2", "tp=2,pp=2", true},
                                                      {"fsdp=3", "tp=2", false},
                                                      {"ep=8", "tp=1", true}}) {
    CAPTURE(pair.train, pair.gen, pair.colocated);
    ranks::Spec spec = pair.spec();
    spec.peer_memory = true;
    const ranks::Result result = bench(spec);
    CHECK(complaints(result.bench.control) == "");
    CHECK(complaints(result.bench.treatment) == "");
    CHECK(result.bench.control.parameters_digest == result.bench.treatment.parameters_digest);
    CHECK(result.exchange == "threads+peer");
    for (const ranks::RankRow& row : result.ranks) {
      CHECK(row.treatment.peak_extra_bytes <= row.treatment.most_extra_bytes);
    }
  }
}

TEST_CASE("no rank reads or writes what another's device still works on") {
  for (const bool peer_memory : {false, true}) {
    for (const char* gen : {"dp=2", "tp=2"}) {
      CAPTURE(peer_memory, gen);
      ranks::Spec spec = tiny_ranks("ep=2", gen, kStaged, kDirect);
      spec.peer_memory = peer_memory;
      const ranks::Result result = bench(spec, -1, deferring);
      CHECK(complaints(result.bench.control) == "");
      CHECK(complaints(result.bench.treatment) == "");
    }
  }
}

TEST_CASE("every switch that ranks look at gives the same parameters") {
  std::map<std::string, std::uint64_t> digests;
  for (const char* switches :
       {"prequantize=off,shuffle=per-expert", "prequantize=on,shuffle=per-expert,loader=cached",
        "prequantize=on,shuffle=batched,quantize=batched", "prequantize=off,shuffle=fused,loader=cached",
        "prequantize=on,shuffle=fused,double_buffer=off",
        "pipeline=direct,prequantize=on,double_buffer=off"}) {
    CAPTURE(switches);
    ranks::Spec spec = tiny_ranks("ep=2", "tp=2", switches, switches);
    spec.bench.control_alone = true;
    const ranks::Result result = bench(spec);
    CHECK(complaints(result.bench.control) == "");
    digests[switches] = result.bench.control.parameters_digest;
  }
  for (const auto& [switches, digest] : digests) CHECK(digest == digests.begin()->second);
}

TEST_CASE("a byte that changes on its way is found, named by ranks, and not blamed on others") {
  const ranks::Result whole = bench(tiny_ranks("ep=2", "tp=2", kStaged, kDirect));
  REQUIRE(whole.bench.control.verdict.passed());
  // Rank 1's parts in order: control timed, control verified, treatment timed, treatment verified, next step.
  unsigned found = 0;
  for (const int at : {0, 1, 2, 5, 9}) {
    CAPTURE(at);
    const ranks::Result result = bench(tiny_ranks("ep=2", "tp=2", kStaged, kDirect), at);
    const std::string said = complaints(result.bench.control) + complaints(result.bench.treatment);
    CHECK_FALSE(said.empty());
    found += !said.empty();
    CHECK(said.find("(messages of rank 0") == std::string::npos);
  }
  CHECK(found == 5);
}

TEST_CASE("ranks that were asked for different things say so before anything is allocated") {
  const auto refused = [](const std::function<void(ranks::Spec&)>& change) {
    std::string said;
    std::mutex lock;
    std::atomic<unsigned> backends = 0;
    transport::run_thread_ranks(2, [&](transport::ThreadRank& rank) {
      ranks::Spec spec = tiny_ranks("ep=2", "tp=2", kStaged, kDirect);
      if (rank.group->rank() == 1) change(spec);
      try {
        (void)ranks::run_bench(spec, *rank.group, *rank.exchange, [&](const device::Choice& choice) {
          ++backends;
          return host(choice);
        });
      } catch (const Error& error) {
        const std::lock_guard locked(lock);
        CHECK(error.kind() == ErrorKind::input);
        said = error.what();
      }
    });
    CHECK(backends == 0);
    return said;
  };
  CHECK(refused([](ranks::Spec& s) { s.bench.seed = 9; }) ==
        "ranks disagree: seed is 1 on rank 0 and 9 on rank 1");
  CHECK(refused([](ranks::Spec& s) { s.bench.treatment.buffer_size *= 2; }).find("treatment.buffer_size") !=
        std::string::npos);
  CHECK(refused([](ranks::Spec& s) { s.bench.slice.layers = 2; }).find("slice") != std::string::npos);
  CHECK(refused([](ranks::Spec& s) { s.bench.moe_layout = plan::MoeLayout::checkpoint; }) ==
        "ranks disagree: MoE layout is flashinfer-trtllm on rank 0 and checkpoint on rank 1");
  CHECK(contains(refused([](ranks::Spec& s) { s.bench.recipe.kind = model::RecipeKind::none; }),
                 "recipe is routed-experts on rank 0 and none on rank 1"));
  CHECK(contains(refused([](ranks::Spec& s) { s.bench.recipe.ignore = {"layers.1."}; }),
                 "ignore is  on rank 0 and layers.1. on rank 1"));
  CHECK(contains(refused([](ranks::Spec& s) { s.form = reshard::TrainerForm::hf; }), "trainer form is"));
  CHECK(contains(refused([](ranks::Spec& s) { s.bench.host_traffic.reference_swap_bytes = 1; }),
                 "host traffic is"));
  CHECK(contains(refused([](ranks::Spec& s) { s.bench.control_alone = true; }), "control alone is"));
  CHECK(refused([](ranks::Spec& s) { s.build = "abc"; }) ==
        "ranks disagree: build is  on rank 0 and abc on rank 1");
  CHECK(contains(refused([](ranks::Spec& s) { s.bench.config_json.insert(1, " "); }), "model is"));
  CHECK(
      contains(refused([](ranks::Spec& s) { s.peer_memory = true; }), "peer memory is no on rank 0 and yes"));
  CHECK(contains(refused([](ranks::Spec& s) { s.gpus_per_node = 1; }), "plan is"));
  ranks::Spec three = tiny_ranks("ep=2", "tp=2", kStaged, kDirect);
  three.colocated = false;
  CHECK_THROWS_WITH(transport::run_thread_ranks(2,
                                                [&](transport::ThreadRank& rank) {
                                                  (void)ranks::run_bench(three, *rank.group, *rank.exchange,
                                                                         host);
                                                }),
                    Catch::Matchers::Contains("2 ranks were started") && Catch::Matchers::Contains("take 4"));
}

TEST_CASE("a rank of another version is refused by that") {
  class OfAnotherVersion : public transport::Group {
   public:
    explicit OfAnotherVersion(transport::Group& group) : group_(group) {}
    [[nodiscard]] std::uint32_t rank() const noexcept override { return group_.rank(); }
    [[nodiscard]] std::uint32_t size() const noexcept override { return group_.size(); }
    [[nodiscard]] std::vector<std::string> all_gather(std::string_view mine, Deadline deadline) override {
      std::string said(mine);
      if (const std::size_t at = said.find(kVersion); at != said.npos)
        said.replace(at, kVersion.size(), "99");
      return group_.all_gather(said, deadline);
    }
    void doing(std::string_view what) noexcept override { group_.doing(what); }

   private:
    transport::Group& group_;
  };
  const ranks::Spec spec = tiny_ranks("ep=2", "tp=2", kStaged, kDirect);
  const std::string said = error_of([&] {
                             transport::run_thread_ranks(2, [&](transport::ThreadRank& rank) {
                               OfAnotherVersion other(*rank.group);
                               transport::Group& group = rank.group->rank() == 1
                                                             ? static_cast<transport::Group&>(other)
                                                             : *rank.group;
                               (void)ranks::run_bench(spec, group, *rank.exchange, host);
                             });
                           }).what();
  CHECK(said == "ranks disagree: version is " + std::string(kVersion) + " on rank 0 and 99 on rank 1");
}

TEST_CASE("when a rank goes, the others end and say which and what it was doing") {
  class Leaving : public transport::Exchange {
   public:
    Leaving(transport::Exchange& exchange, bool leaves) : exchange_(exchange), leaves_(leaves) {}
    [[nodiscard]] std::string_view name() const noexcept override { return exchange_.name(); }
    void start(unsigned slot, std::span<const transport::Part> sends,
               std::span<const transport::Part> receives) override {
      if (leaves_ && ++rounds_ == 3) fail_runtime("left on purpose");
      exchange_.start(slot, sends, receives);
    }
    void wait(unsigned slot, Deadline deadline) override { exchange_.wait(slot, deadline); }
    void abandon(Buffers buffers) noexcept override { exchange_.abandon(std::move(buffers)); }

   private:
    transport::Exchange& exchange_;
    bool leaves_;
    int rounds_ = 0;
  };
  std::mutex lock;
  std::vector<std::string> said;
  CHECK_THROWS_AS(transport::run_thread_ranks(3,
                                              [&](transport::ThreadRank& rank) {
                                                Leaving leaving(*rank.exchange, rank.group->rank() == 1);
                                                try {
                                                  (void)ranks::run_bench(
                                                      tiny_ranks("fsdp=3", "dp=3", kStaged, kDirect),
                                                      *rank.group, leaving, host);
                                                } catch (const Error& error) {
                                                  const std::lock_guard locked(lock);
                                                  if (rank.group->rank() != 1)
                                                    said.emplace_back(error.what());
                                                  throw;
                                                }
                                              }),
                  Error);
  REQUIRE(said.size() == 2);
  for (const std::string& sentence : said) {
    CHECK_THAT(sentence,
               Catch::Matchers::Contains("rank 1 is gone") && Catch::Matchers::Contains("moving weights"));
  }
}

TEST_CASE("a rank that leaves in the middle of a round gives its buffers to who still moves it") {
  class FailsInRound3 : public transport::Exchange {
   public:
    explicit FailsInRound3(transport::Exchange& exchange) : exchange_(exchange) {}
    [[nodiscard]] std::string_view name() const noexcept override { return exchange_.name(); }
    void start(unsigned slot, std::span<const transport::Part> sends,
               std::span<const transport::Part> receives) override {
      if (++rounds_ == 3) fail_runtime("left on purpose");
      exchange_.start(slot, sends, receives);
      for (const auto& parts : {sends, receives}) {
        for (const transport::Part& part : parts) used.push_back(part.bytes);
      }
    }
    void wait(unsigned slot, Deadline deadline) override { exchange_.wait(slot, deadline); }
    void abandon(Buffers buffers) noexcept override { given = std::move(buffers); }
    std::vector<std::span<std::byte>> used;
    Buffers given;

   private:
    transport::Exchange& exchange_;
    int rounds_ = 0;
  };
  std::atomic<int> kept = 0;
  const std::string said =
      error_of([&] {
        transport::run_thread_ranks(2, [&](transport::ThreadRank& rank) {
          FailsInRound3 failing(*rank.exchange);
          try {
            (void)ranks::run_bench(tiny_ranks("ep=2", "tp=2", kStaged, kDirect), *rank.group, failing, host);
          } catch (const Error&) {
            for (const auto& bytes : failing.used) std::fill(bytes.begin(), bytes.end(), std::byte{});
            for (const auto& buffer : failing.given) kept += buffer.use_count() == 1;
            throw;
          }
        });
      }).what();
  CHECK(said == "left on purpose");
  CHECK(kept == 8);
}

TEST_CASE("ranks that are threads do what every group and exchange has to do") {
  for (const std::uint32_t ranks : {1, 2, 5}) {
    transport::run_thread_ranks(
        ranks, [](transport::ThreadRank& rank) { test::check_ranks(*rank.group, *rank.exchange); });
  }
}
