// Agreeing, taking turns, and one result of all ranks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "ranks/rank.hpp"
#include "ranks/row_codec.hpp"
#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "refit/base/printable.hpp"
#include "refit/time/statistics.hpp"
#include "refit/version.hpp"
#include "run/collect.hpp"

namespace refit::ranks {
namespace {

constexpr unsigned kLeastMeasuredSteps = 5;
/// Seconds that one rank's copies may take a busy machine.
constexpr double kLongestCopies = 20;
constexpr std::byte kFirstPoison{0xA5};
constexpr std::array kArms = {0, 1};

// --- agreement

using Plans = std::array<reshard::Reshard, 2>;  // by arm, with this rank's sends and receives
using Promise = std::vector<std::pair<std::string, std::string>>;

/// "all" where nothing is left out.
std::string part_of(std::uint64_t count) {
  return count == 0 ? "all" : std::to_string(count);
}

std::string to_text(const run::HostTraffic& traffic) {
  return fmt::format("{} and {} bytes of optimizer, {} of reference policy", traffic.offload_full_bytes,
                     traffic.offload_slim_bytes, traffic.reference_swap_bytes);
}

/// What has to be the same on every rank, by the names that people know.
Promise promise_of(const Setup& setup, const Plans& plans) {
  const run::BenchSpec& bench = setup.spec.bench;
  Promise promise = {
      {"version", std::string(kVersion)},
      {"build", setup.spec.build},
      {"model", fmt::format("{:016x}", digest_text(bench.config_json))},
      {"slice", fmt::format("{} layers, {} experts, {} vocabulary rows", part_of(bench.slice.layers),
                            part_of(bench.slice.experts), part_of(bench.slice.vocab_rows))},
      {"recipe", std::string(model::name_of(bench.recipe.kind))},
      {"ignore", printable(fmt::format("{}", fmt::join(bench.recipe.ignore, ", ")))},
      {"MoE layout", std::string(plan::name_of(bench.moe_layout))},
      {"seed", std::to_string(bench.seed)},
      {"steps", std::to_string(bench.steps)},
      {"warmup", std::to_string(bench.warmup)},
      {"verify", std::to_string(static_cast<int>(bench.verify))},
      {"control alone", bench.control_alone ? "yes" : "no"},
      {"measuring copies", bench.measure_copy ? "yes" : "no"},
      {"host traffic", to_text(bench.host_traffic)},
      {"backend", std::string(device::name_of(bench.backend.kind))},
      {"trainer form", setup.spec.form == reshard::TrainerForm::hf ? "hf" : "megatron"},
      {"train", reshard::to_string(setup.trainer->parallelism())},
      {"gen", reshard::to_string(setup.generator->parallelism())},
      {"colocated", setup.spec.colocated ? "yes" : "no"},
      {"peer memory", setup.spec.peer_memory ? "yes" : "no"},
      {"broadcast", setup.spec.broadcast ? "yes" : "no"}};
  for (const std::size_t arm : kArms) {
    const std::string name = arm == 0 ? "control" : "treatment";
    for (const auto& [key, value] : plan::to_pairs(setup.switches(arm)))
      promise.emplace_back(name + "." + key, value);
    promise.emplace_back(name + " plan", fmt::format("{:016x}", plans[arm].digest));
  }
  return promise;
}

std::string to_text(const Promise& promise) {
  std::string text;
  for (const auto& [name, value] : promise) text += name + "\n" + value + "\n";
  return text;
}

Promise from_text(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  Promise promise;
  for (std::size_t i = 0; i + 1 < lines.size(); i += 2) promise.emplace_back(lines[i], lines[i + 1]);
  return promise;
}

void check_size(const Setup& setup, const transport::Group& group) {
  if (group.size() != setup.spec.processes()) {
    fail_input(fmt::format("{} ranks were started, and {} on the trainer with {} on the generator{} take {}",
                           group.size(), reshard::to_string(setup.trainer->parallelism()),
                           reshard::to_string(setup.generator->parallelism()),
                           setup.spec.colocated ? "" : ", on ranks of their own,", setup.spec.processes()));
  }
}

void agree(const Setup& setup, const Plans& plans, transport::Group& group) {
  group.doing("agreeing on the plan");
  const std::vector<std::string> all = group.all_gather(
      to_text(promise_of(setup, plans)), Deadline::after(run::Seconds(setup.spec.bench.timeout_s)));
  const Promise first = from_text(all.front());
  for (std::uint32_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all.front()) continue;
    const Promise other = from_text(all[rank]);
    for (std::size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      if (i < first.size() && i < other.size() && first[i] == other[i]) continue;
      const auto said = [&](const Promise& promise) {
        return i < promise.size() ? promise[i].second : "nothing";
      };
      const std::string& name = i < first.size() ? first[i].first : other[i].first;
      fail_input(fmt::format("ranks disagree: {} is {} on rank 0 and {} on rank {}", name, said(first),
                             said(other), rank));
    }
  }
}

// --- one result of all rows

/// Of each step the slowest rank's.
std::vector<double> slowest(const std::vector<RankRow>& rows,
                            const std::function<const std::vector<double>&(const RankRow&)>& of) {
  std::vector<double> most = of(rows.front());
  for (const RankRow& row : rows) {
    const std::vector<double>& own = of(row);
    for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], own.at(i));
  }
  return most;
}

/// Stages and wall time are those of the rank whose median is largest.
run::ArmResult merged(const std::vector<RankRow>& rows, RankArm RankRow::*arm, const plan::Switches& switches,
                      const Setup& setup) {
  run::ArmResult result;
  result.switches = switches;
  result.inapplicable = unused_switches(switches);
  const auto median = [&](const RankRow& row) {
    return (row.*arm).seconds.empty() ? 0.0 : summarize((row.*arm).seconds).median;
  };
  const RankRow& straggler = *std::max_element(
      rows.begin(), rows.end(), [&](const RankRow& a, const RankRow& b) { return median(a) < median(b); });
  result.stages = (straggler.*arm).stages;
  result.trainer = {(straggler.*arm).seconds, (straggler.*arm).unattributed};
  std::uint64_t floor_bytes = 0, link_bytes = 0;
  std::vector<std::uint64_t> digests;
  for (const RankRow& row : rows) {
    const RankArm& own = row.*arm;
    floor_bytes = std::max(floor_bytes, own.floor_bytes);
    link_bytes = std::max(link_bytes, own.link_bytes);
    for (std::size_t peer = 0; peer < own.sent.size(); ++peer) {
      if (peer != row.rank) result.wire_bytes += own.sent[peer];
    }
    result.peak_extra_bytes += own.peak_extra_bytes;
    result.verdict.merge(own.verdict);
    digests.push_back(own.parameters_digest);
  }
  result.parameters_digest = digest(std::as_bytes(std::span(digests)));
  const auto phase = [&](const char* name, std::vector<double> seconds, bool stand_in) {
    result.phases[std::string("prepare_for_generation/") + name] = {std::move(seconds), 0, stand_in};
  };
  const bool stand_in = setup.spec.bench.backend.kind == device::Kind::cpu;
  phase("transfer_and_update_weights",
        slowest(
            rows, [&](const RankRow& r) -> auto& { return (r.*arm).seconds; }),
        false);
  phase("offload_before_refit",
        slowest(
            rows, [&](const RankRow& r) -> auto& { return (r.*arm).offload; }),
        stand_in);
  run::PhaseSamples& transfer = result.phases["prepare_for_generation/transfer_and_update_weights"];
  transfer.floor_bytes = floor_bytes;
  transfer.link_bytes = link_bytes;
  std::vector<double> total = transfer.seconds;
  const std::vector<double>& offload = result.phases["prepare_for_generation/offload_before_refit"].seconds;
  for (std::size_t i = 0; i < total.size(); ++i) total[i] += offload[i];
  phase("total", std::move(total), false);
  result.phases["policy_and_reference_logprobs/reference_swap"] = {
      slowest(
          rows, [&](const RankRow& r) -> auto& { return (r.*arm).swap; }),
      0, stand_in};
  return result;
}

class Bench {
 public:
  /// `exchange` is null for a simulated rank.
  Bench(const Setup& setup, Plans plans, transport::Group& group, transport::Exchange* exchange,
        std::unique_ptr<device::Backend> backend, const run::Progress& progress)
      : setup_(setup),
        spec_(setup.spec.bench),
        group_(group),
        exchange_(exchange),
        progress_(progress),
        rank_(setup, std::move(plans), group, exchange, std::move(backend)) {}

  Result run() {
    run::BenchResult bench;
    bench.warmup = std::min(spec_.warmup, spec_.steps);
    bench.backend = spec_.backend;
    bench.device = rank_.backend().describe();
    measure_copy(bench.copy);
    bench.clocks_before = rank_.backend().clocks();
    for (unsigned step = 1; step <= spec_.steps; ++step) {
      if (progress_) progress_(step - 1, spec_.steps, "refit");
      rank_.update_weights();
      for (const std::size_t arm : {(step + 1) % 2, step % 2}) {  // odd steps begin with the control
        if (arm == 0 || !spec_.control_alone) run_step(arm, step, bench.warmup);
      }
      if (step > bench.warmup) ++bench.steps;
      if (all_out_of_time(step, bench)) {
        bench.stopped_early = true;
        break;
      }
    }
    bench.clocks_after = rank_.backend().clocks();
    measure_copy(bench.copy);
    return gather(std::move(bench));
  }

 private:
  [[nodiscard]] double elapsed() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

  /// Whether the result is this rank's to make.
  [[nodiscard]] bool reports() const noexcept { return setup_.spec.simulated_rank || group_.rank() == 0; }

  /// Ranks take turns, so that they do not share the memory's speed; rank 0's copies count.
  void measure_copy(run::CopyBandwidth& copy) {
    if (!spec_.measure_copy) return;
    group_.doing("measuring copies");
    if (reports()) rank_.measure_copy(copy);
    copy.threads = spec_.backend.kind == device::Kind::cpu ? spec_.backend.threads : 0;
    group_.barrier(Deadline::after(run::Seconds(spec_.timeout_s + kLongestCopies)));
  }

  void run_step(std::size_t arm, unsigned step, unsigned warmup) {
    const bool verify =
        spec_.verify == run::VerifyWhen::every || (spec_.verify == run::VerifyWhen::first && step == 1);
    if (verify) rank_.poison(arm, kFirstPoison);
    rank_.refit(arm, step > warmup);
    if (!verify) return;
    const Clock::time_point begin = Clock::now();
    rank_.verify(arm);
    verify_seconds_[arm] = std::chrono::duration<double>(Clock::now() - begin).count();
    ++verified_[arm];
  }

  /// Rank 0's clock decides for everybody.
  [[nodiscard]] bool all_out_of_time(unsigned step, const run::BenchResult& bench) {
    const bool mine = step < spec_.steps && bench.steps >= kLeastMeasuredSteps &&
                      elapsed() + elapsed() / step > spec_.time_budget_s;
    return group_.all_gather(mine ? "stop" : "", rank_.deadline()).front() == "stop";
  }

  Result gather(run::BenchResult bench) {
    group_.doing("gathering results");
    const std::vector<std::string> all = group_.all_gather(encode_row(rank_.row()), rank_.deadline());
    if (!reports()) return {};
    Result result;
    if (setup_.spec.simulated_rank) {
      result.ranks.push_back(rank_.row());
    } else {
      for (const std::string& row : all) result.ranks.push_back(decode_row(row));
    }
    bench.control = merged(result.ranks, &RankRow::control, spec_.control, setup_);
    bench.treatment = merged(result.ranks, &RankRow::treatment, spec_.treatment, setup_);
    for (const std::size_t arm : kArms) {
      run::ArmResult& out = arm == 0 ? bench.control : bench.treatment;
      out.verified_refits = verified_[arm];
      out.verify_seconds = verify_seconds_[arm];
      out.buckets = rank_.plan(arm).rounds;
      out.messages = rank_.plan(arm).messages;
    }
    for (const RankRow& row : result.ranks) {
      bench.source_bytes += row.source_bytes;
      bench.destination_bytes += row.destination_bytes;
    }
    bench.seconds = elapsed();
    result.bench = std::move(bench);
    result.trainer = setup_.trainer->parallelism();
    result.generator = setup_.generator->parallelism();
    result.exchange = exchange_ == nullptr ? "simulated" : exchange_->name();
    if (setup_.spec.peer_memory) result.exchange += "+peer";
    if (setup_.spec.broadcast) result.exchange += "-broadcast";
    result.simulated_rank = setup_.spec.simulated_rank;
    result.notes = rank_.plan(1).notes;
    result.rounds_control = rank_.plan(0).rounds;
    result.rounds_treatment = rank_.plan(1).rounds;
    return result;
  }

  const Setup& setup_;
  const run::BenchSpec& spec_;
  transport::Group& group_;
  transport::Exchange* exchange_;
  const run::Progress& progress_;
  Clock::time_point start_ = Clock::now();
  Rank rank_;
  std::array<unsigned, 2> verified_{};
  std::array<double, 2> verify_seconds_{};
};

}  // namespace

std::vector<std::string> unused_switches(const plan::Switches& switches) {
  std::vector<std::string> names = {"metadata", "handle_encoding", "handles", "ipc_buffers", "commit"};
  if (switches.pipeline == plan::Pipeline::direct) {
    // Rounds have a size and take turns in either pipeline.
    for (const char* name : {"quantize", "loader", "shuffle"}) names.emplace_back(name);
  }
  return names;
}

std::uint64_t of_others(const std::vector<std::uint64_t>& by_peer, std::uint32_t self) {
  std::uint64_t bytes = 0;
  for (std::size_t peer = 0; peer < by_peer.size(); ++peer) {
    if (peer != self) bytes += by_peer[peer];
  }
  return bytes;
}

namespace {

Result run(const Setup& setup, transport::Group& group, transport::Exchange* exchange,
           const run::MakeBackend& make_backend, const run::Progress& progress) {
  if (setup.spec.bench.steps == 0) fail_input("a bench of 0 steps was asked for; it takes at least 1");
  check_size(setup, group);
  Plans plans = {setup.plan(0, group.rank()), setup.plan(1, group.rank())};
  agree(setup, plans, group);
  return Bench(setup, std::move(plans), group, exchange, make_backend(setup.spec.bench.backend), progress)
      .run();
}

}  // namespace

Result run_bench(const Spec& spec, transport::Group& group, transport::Exchange& exchange,
                 const run::MakeBackend& make_backend, const run::Progress& progress) {
  return run(Setup(spec), group, &exchange, make_backend, progress);
}

Result run_simulated(const Spec& spec, const run::MakeBackend& make_backend, const run::Progress& progress) {
  const Setup setup(spec);
  const std::uint32_t rank = spec.simulated_rank.value();
  if (spec.peer_memory) {
    fail_input(
        "a simulated rank has no peers whose memory it could write to, nor they its: leave peer memory out");
  }
  if (rank >= spec.processes()) {
    fail_input(
        fmt::format("there is no rank {} to simulate: there are {}, counted from 0", rank, spec.processes()));
  }
  if (!setup.generator_rank(rank)) {
    fail_input(fmt::format(
        "rank {} only sends, and nobody would see its bytes: simulate a rank of the "
        "generator, {} to {}",
        rank, setup.processes.of_generator(0), setup.processes.of_generator(setup.generator->ranks() - 1)));
  }
  SimulatedGroup group(rank, spec.processes());
  return run(setup, group, nullptr, make_backend, progress);
}

}  // namespace refit::ranks
