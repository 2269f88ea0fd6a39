// Every rank runs this; what they have to agree on, they agree on here.
#include "on_ranks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <utility>

#include "common/backends.hpp"
#include "common/cli.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "refit/base/error.hpp"
#include "refit/model/inventory.hpp"
#include "refit/report/environment.hpp"
#include "refit/scenario/ranks_replay.hpp"
#if REFIT_HAS_MPI
#include "refit/mpi/session.hpp"
#endif
#if REFIT_HAS_NCCL
#include "refit/nccl/exchange.hpp"
#endif

namespace refit::apps {
namespace {

/// How the bytes of a round get from rank to rank, and whether pipeline=direct goes without rounds.
struct DataPath {
  bool nccl = false, peer = false;
};

DataPath data_path_of(const RefitOptions& options, device::Kind kind) {
  const bool cpu = kind == device::Kind::cpu;
  const std::string& name = options.transport;
  if (name != "auto" && name != "mpi" && name != "nccl" && name != "peer") {
    fail_input(fmt::format("--transport {} is for one rank; ranks have auto, mpi, nccl, peer", name));
  }
  if (name == (cpu ? "nccl" : "mpi")) {
    fail_input(fmt::format("--transport {} moves {} memory and does not go with --backend {}", name,
                           cpu ? "GPU" : "host", options.backend.kind));
  }
#if !REFIT_HAS_NCCL
  if (!cpu) fail_input("this build has no NCCL; install it, configure with -DREFIT_NCCL=ON and build again");
#endif
  return {.nccl = !cpu, .peer = name == "peer"};
}

void plan_replay(const BenchOptions& options, report::Report& report, std::uint32_t sharing) {
  report.model = model::parse_inventory(report.scenario.config_json, report.scenario.config_place);
  report.replay = scenario::choose_ranks_replay(report.scenario, report.model, options.refit.replay, sharing);
  set_run(options, report.replay->spec);
}

void write(Output& output, const report::Report& report) {
  output.json(report);
  output.table(report);
}

int dry_run(const BenchOptions& options, report::Report& report) {
  Output output(options);
  plan_replay(options, report, 0);
  report.status = report::Status::dry_run;
  write(output, report);
  return 0;
}

#if REFIT_HAS_MPI

/// Of the launchers' variables, the first that is there.
std::uint32_t number_of(std::initializer_list<const char*> names, std::uint32_t otherwise) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name))
      return static_cast<std::uint32_t>(std::strtoul(value, nullptr, 10));
  }
  return otherwise;
}

class RanksBench {
 public:
  RanksBench(BenchOptions options, report::Report report, DataPath path, transport::Group& group,
             std::unique_ptr<transport::Exchange> host_exchange)
      : options_(std::move(options)),
        report_(std::move(report)),
        path_(path),
        group_(group),
        exchange_(std::move(host_exchange)) {}

  int run() {
    if (group_.rank() == 0) output_.emplace(options_);
    try {
      run_and_report();
    } catch (const std::exception& error) {
      report_.status = report_.replay ? report::Status::failed : report::Status::refused;
      report_.message = error.what();
      if (output_) output_->json(report_);
      throw;
    }
    return report_.status == report::Status::mismatch ? exit_code(ErrorKind::check) : 0;
  }

 private:
  void run_and_report() {
    const std::uint32_t on_this_host =
        number_of({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"}, group_.size());
    choose_device(on_this_host);
    agree_on_budget();
    plan_replay(options_, report_, path_.nccl ? 1 : on_this_host);
    ranks::Spec spec = scenario::ranks_spec(*report_.scenario.ranks, report_.replay->spec);
    spec.peer_memory = path_.peer;
    ProgressBar bar(!options_.quiet && output_);
    ranks::Result result = ranks::run_bench(
        spec, group_, *exchange_, make_backend,
        [&](unsigned done, unsigned planned, const std::string& what) { bar.show(done, planned, what); });
    if (!output_) return;
    report_.result = std::move(result.bench);
    report_.ranks = std::move(result);
    report_.status = report::status_of(*report_.result);
    write(*output_, report_);
  }

  [[nodiscard]] Deadline deadline() const {
    return Deadline::after(std::chrono::duration<double>(options_.refit.timeout_s));
  }

  void choose_device(std::uint32_t on_this_host) {
    set_backend(options_.refit, "auto");
    device::Choice& choice = options_.refit.replay.backend;
    // All CPUs of the host are the default of one rank alone.
    if (choice.threads == report::usable_cpus()) {
      choice.threads = std::max(1u, choice.threads / std::max(1u, on_this_host));
    }
    if (choice.kind == device::Kind::cpu) return;
    choice.ordinal = static_cast<int>(number_of(
        {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}, group_.rank() % on_this_host));
#if REFIT_HAS_NCCL
    exchange_ = nccl::make_exchange(group_, choice.ordinal, deadline());
#endif
  }

  /// Free memory differs between ranks and moments; what is replayed must not.
  void agree_on_budget() {
    std::uint64_t& budget = options_.refit.replay.memory_budget;
    if (budget == 0) {
      budget = path_.nccl ? usable_memory(options_.refit.replay.backend) : scenario::default_memory_budget();
    }
    for (const std::string& theirs : group_.all_gather(std::to_string(budget), deadline())) {
      budget = std::min<std::uint64_t>(budget, std::strtoull(theirs.c_str(), nullptr, 10));
    }
  }

  BenchOptions options_;
  report::Report report_;
  DataPath path_;
  transport::Group& group_;
  std::unique_ptr<transport::Exchange> exchange_;
  std::optional<Output> output_;  ///< rank 0's
};

/// Whether this rank is ending already: then it is no news that others do.
std::atomic<bool> ending = false;

int run_ranks(BenchOptions options, report::Report report, DataPath path) {
  std::atomic<int> rank = -1;
  mpi::Session session([&](const std::string& sentence) {
    if (!ending) write_stderr(fmt::format("refit-bench: rank {}: {}\n", rank.load(), sentence));
    std::_Exit(exit_code(ErrorKind::runtime));
  });
  const std::unique_ptr<transport::Group> group = session.group();
  rank = static_cast<int>(group->rank());
  const auto fail = [&](const char* sentence, int code) {
    // What all ranks refuse alike is said by the first alone.
    if (code == exit_code(ErrorKind::input) && group->rank() != 0) ::usleep(500'000);
    ending = true;
    write_stderr(fmt::format("refit-bench: rank {}: {}\n", group->rank(), sentence));
    session.abort(code);
  };
  try {
    return RanksBench(std::move(options), std::move(report), path, *group, session.exchange()).run();
  } catch (const Error& error) {
    fail(error.what(), exit_code(error.kind()));
  } catch (const std::exception& error) {
    fail(error.what(), exit_code(ErrorKind::runtime));
  }
  return exit_code(ErrorKind::runtime);
}

#endif

}  // namespace

int bench_on_ranks(BenchOptions options, report::Report report) {
  const device::Choice backend = backend_choice(options.refit.backend, "auto");
  const DataPath path = data_path_of(options.refit, backend.kind);
  if (!options.refit.checkpoint.empty())
    fail_input("--checkpoint feeds one rank; many ranks have seeded weights");
  if (options.dry_run) return dry_run(options, report);
#if REFIT_HAS_MPI
  if (!mpi::launched()) {
    fail_input(
        fmt::format("this takes {0} ranks, and this process was started alone: start it with mpirun -np {0} "
                    "refit-bench ...",
                    report.scenario.ranks->processes()));
  }
  return run_ranks(std::move(options), std::move(report), path);
#else
  (void)path;
  fail_input("this build runs one rank; install MPI, configure with -DREFIT_MPI=ON and build again");
#endif
}

}  // namespace refit::apps
