// Every rank runs this; what they have to agree on, they agree on here.
#include "on_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "common/backends.hpp"
#include "common/build_info.hpp"
#include "common/cli.hpp"
#include "launch.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "refit/base/error.hpp"
#include "refit/model/inventory.hpp"
#include "refit/report/environment.hpp"
#include "refit/scenario/ranks_replay.hpp"
#if REFIT_HAS_NCCL
#include "refit/nccl/exchange.hpp"
#endif

namespace refit::apps {
namespace {

/// How the bytes of a round get from rank to rank, whether pipeline=direct goes without rounds, and whether
/// pipeline=staged sends everything to everybody.
struct DataPath {
  bool nccl = false, peer = false, broadcast = false;
  std::string carrier;  ///< --transport without "-broadcast"
};

constexpr std::string_view kBroadcast = "-broadcast";

DataPath data_path_of(const RefitOptions& options, device::Kind kind) {
  const bool cpu = kind == device::Kind::cpu;
  std::string name = options.transport;
  const bool broadcast = name.ends_with(kBroadcast);
  if (broadcast) name.resize(name.size() - kBroadcast.size());
  const bool between = name == "mpi" || name == "tcp" || name == "nccl";
  if (!between && (broadcast || (name != "auto" && name != "peer"))) {
    fail_input(
        fmt::format("--transport {} is none of ranks: auto, mpi, tcp, nccl, peer, mpi-broadcast, "
                    "tcp-broadcast, nccl-broadcast",
                    options.transport));
  }
  if (between && cpu == (name == "nccl")) {
    fail_input(fmt::format("--transport {} moves {} memory and does not go with --backend {}",
                           options.transport, cpu ? "GPU" : "host", options.backend.kind));
  }
#if !REFIT_HAS_NCCL
  if (!cpu) fail_input("this build has no NCCL; install it, configure with -DREFIT_NCCL=ON and build again");
#endif
  return {.nccl = !cpu, .peer = name == "peer", .broadcast = broadcast, .carrier = name};
}

void plan_replay(const BenchOptions& options, report::Report& report, std::uint32_t sharing) {
  report.model = model::parse_inventory(report.scenario.config_json, report.scenario.config_place);
  report.replay = scenario::choose_ranks_replay(report.scenario, report.model, options.refit.replay, sharing);
  set_run(options, report.replay->spec);
}

int dry_run(const BenchOptions& options, report::Report& report) {
  Output output(options);
  plan_replay(options, report, 0);
  report.status = report::Status::dry_run;
  output.write(report);
  return 0;
}

class RanksBench {
 public:
  RanksBench(BenchOptions options, report::Report report, DataPath path, transport::Session& session)
      : options_(std::move(options)),
        report_(std::move(report)),
        path_(path),
        session_(session),
        own_group_(session.group()),
        group_(*own_group_),
        exchange_(session.exchange()) {}

  int run() {
    if (group_.rank() == 0) output_.emplace(options_);
    try {
      run_and_report();
    } catch (const std::exception& error) {
      report_.status = report_.replay ? report::Status::failed : report::Status::refused;
      report_.message = error.what();
      if (output_) output_->unfinished(report_);
      throw;
    }
    if (output_) output_->write(report_);
    return report_.status == report::Status::mismatch ? exit_code(ErrorKind::check) : 0;
  }

 private:
  void run_and_report() {
    choose_device();
    const std::uint32_t on_a_host = agree_on_memory();
    plan_replay(options_, report_, path_.nccl ? 1 : on_a_host);
    ranks::Spec spec = scenario::ranks_spec(*report_.scenario.ranks, report_.replay->spec);
    spec.peer_memory = path_.peer;
    spec.gpus_per_node = on_a_host;
    spec.bench.keep_spans = spans_to_keep(options_, group_.size());
    const report::BuildInfo build = build_info();
    spec.build =
        build.git_commit.value_or("no commit") + (build.git_dirty.value_or(false) ? " with changes" : "");
    ProgressBar bar(!options_.quiet && output_);
    ranks::Result result = ranks::run_bench(
        spec, group_, *exchange_, make_backend,
        [&](unsigned done, unsigned planned, const std::string& what) { bar.show(done, planned, what); });
    if (!output_) return;
    report_.result = std::move(result.bench);
    report_.ranks = std::move(result);
    report_.status = report::status_of(*report_.result);
  }

  [[nodiscard]] Deadline deadline() const {
    return Deadline::after(std::chrono::duration<double>(options_.refit.timeout_s));
  }

  void choose_device() {
    set_backend(options_.refit, "auto");
    device::Choice& choice = options_.refit.replay.backend;
    // All CPUs of the host are the default of one rank alone.
    if (choice.threads == report::usable_cpus()) {
      choice.threads = std::max(1u, choice.threads / session_.ranks_on_this_host());
    }
    if (choice.kind == device::Kind::cpu) return;
    choice.ordinal = static_cast<int>(session_.local_rank());
#if REFIT_HAS_NCCL
    exchange_ = nccl::make_exchange(group_, choice.ordinal, deadline());
#endif
  }

  /// Free memory differs between ranks and moments; what is replayed must not. Returns how many ranks share
  /// a host, of the host with most.
  std::uint32_t agree_on_memory() {
    std::uint64_t& budget = options_.refit.replay.memory_budget;
    if (budget == 0) {
      budget = path_.nccl ? usable_memory(options_.refit.replay.backend) : scenario::default_memory_budget();
    }
    std::uint32_t on_a_host = session_.ranks_on_this_host();
    for (const std::string& theirs : group_.all_gather(fmt::format("{} {}", budget, on_a_host), deadline())) {
      std::istringstream words(theirs);
      std::uint64_t their_budget = budget;
      std::uint32_t their_ranks = on_a_host;
      words >> their_budget >> their_ranks;
      budget = std::min(budget, their_budget);
      on_a_host = std::max(on_a_host, their_ranks);
    }
    return on_a_host;
  }

  BenchOptions options_;
  report::Report report_;
  DataPath path_;
  transport::Session& session_;
  std::unique_ptr<transport::Group> own_group_;
  transport::Group& group_;
  std::unique_ptr<transport::Exchange> exchange_;
  std::optional<Output> output_;  ///< rank 0's
};

}  // namespace

int bench_on_ranks(BenchOptions options, report::Report report) {
  const device::Choice backend = backend_choice(options.refit.backend, "auto");
  const DataPath path = data_path_of(options.refit, backend.kind);
  if (!options.refit.checkpoint.empty())
    fail_input("--checkpoint feeds one rank; many ranks have seeded weights");
  report.scenario.ranks->broadcast = path.broadcast;
  if (options.dry_run) return dry_run(options, report);
  const Launcher launcher = launcher_of(report.scenario.ranks->processes(), path.carrier);
  return run_as_rank(launcher, options.refit.timeout_s, [&](transport::Session& session) {
    return RanksBench(options, report, path, session).run();
  });
}

}  // namespace refit::apps
