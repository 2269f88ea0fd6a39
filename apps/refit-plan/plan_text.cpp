// A plan of many ranks for people.
#include "plan_text.hpp"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "refit/base/bytes.hpp"
#include "refit/base/digest.hpp"
#include "refit/base/printable.hpp"

namespace refit::apps {
namespace {

using reshard::Floor;
using reshard::Link;
using reshard::Options;
using reshard::Peer;
using reshard::PlacedTransfer;
using reshard::Report;
using reshard::Spread;
using reshard::Summary;

std::string ranks(const reshard::Parallelism& parallelism) {
  const std::uint32_t count = parallelism.ranks();
  return fmt::format("{} ({} rank{})", to_string(parallelism), count, count == 1 ? "" : "s");
}

std::string hosts(const Options& options) {
  if (!options.colocated) return "in other processes on other hosts";
  if (options.gpus_per_node == 0) return "colocated, hosts not known";
  return fmt::format("colocated, {} ranks a host", options.gpus_per_node);
}

std::string heading(const Report& report) {
  return fmt::format(
      "{}: {} tensors, {}, {} of them to MXFP8\n"
      "trainer    {}, {}\n"
      "generator  {}, {}\n",
      printable(report.name), report.tensors, format_bytes(report.bytes), report.quantized_tensors,
      ranks(report.trainer), name_of(report.trainer_form), ranks(report.generator),
      hosts(report.plan.options));
}

std::string link_line(std::string_view name, std::uint64_t bytes, std::uint64_t all) {
  const double share = all == 0 ? 0 : 100 * static_cast<double>(bytes) / static_cast<double>(all);
  return fmt::format("  {:<22}{:>12}{:>8.1f} %\n", name, format_bytes(bytes), share);
}

std::string links(const Summary& summary) {
  const std::uint64_t all = summary.process_bytes + summary.remote_bytes;
  std::string text = "\nbytes\n" + link_line("same process", summary.process_bytes, all);
  if (summary.host_bytes && summary.network_bytes) {
    text += link_line("same host", *summary.host_bytes, all);
    text += link_line("between hosts", *summary.network_bytes, all);
  } else {
    text += link_line("other process", summary.remote_bytes, all);
  }
  return text;
}

std::string spread_line(std::string_view name, const Spread& spread) {
  return fmt::format("  {:<22}{:>12}{:>12}{:>12}\n", name, format_bytes(spread.least),
                     format_bytes(spread.median), format_bytes(spread.most));
}

std::string per_rank(const Summary& summary) {
  return fmt::format("\n{:<24}{:>12}{:>12}{:>12}\n", "bytes of a rank", "min", "median", "max") +
         spread_line("sends to others", summary.sent) + spread_line("receives from others", summary.received);
}

std::string floor_line(std::string_view name, const Floor& floor, std::string_view option) {
  const std::string time =
      floor.seconds ? fmt::format("{:.4g} s", *floor.seconds) : fmt::format("time with {}", option);
  return fmt::format("  {:<22}{:>12}  {}\n", name, format_bytes(floor.bytes), time);
}

std::string floors(const Summary& summary) {
  std::string text =
      "\nfloors: bytes of the busiest rank\n" + floor_line("memory", summary.memory, "--copy-gbps");
  if (summary.host) text += floor_line("link inside a host", *summary.host, "--nvlink-gbps");
  if (summary.network) text += floor_line("link between hosts", *summary.network, "--network-gbps");
  return text;
}

std::string schedule(const Report& report) {
  const reshard::Reshard& plan = report.plan;
  const Summary& summary = report.summary;
  const std::string imbalance = summary.imbalance
                                    ? fmt::format("{:.3f} (max / mean); {} had a choice of senders",
                                                  *summary.imbalance, format_bytes(plan.replicated_bytes))
                                    : "none: nobody sends";
  return fmt::format(
      "\nrounds                  {} of at most {} a rank\n"
      "messages                {}\n"
      "transfers               {}\n"
      "imbalance of senders    {}\n"
      "peak extra memory       {} a process\n"
      "digest                  {}\n",
      plan.rounds, format_bytes(plan.options.round_bytes), plan.messages, plan.transfers, imbalance,
      format_bytes(summary.peak_extra_bytes), digest_hex(plan.digest));
}

std::string link_word(Link link) {
  switch (link) {
    case Link::process:
      return "same process";
    case Link::host:
      return "same host";
    case Link::network:
      return "another host";
    case Link::unknown:
      return "another process";
  }
  return "";
}

std::string peers(std::string_view heading, const std::vector<Peer>& peers) {
  std::string text = fmt::format("\n{}{}\n", heading, peers.empty() ? ": nothing" : "");
  for (const Peer& peer : peers) {
    text += fmt::format("  rank {:<6} {:<16}{:>12} in {} transfers, {} rounds\n", peer.rank,
                        link_word(peer.link), format_bytes(peer.bytes), peer.transfers, peer.rounds);
  }
  return text;
}

std::string explained(const Report::Explained& explained) {
  std::string text =
      fmt::format("\n{}: rows and columns, from the trainer's tensor to the engine's parameter\n",
                  printable(explained.tensor));
  for (const PlacedTransfer& placed : explained.segments) {
    const auto& [transfer, box, from, to] = placed;
    text += fmt::format(
        "  round {} {:<14} [{}:{}, {}:{}]  rank {} {} row {} col {}  ->  rank {} {}{} row {} col {}\n",
        transfer.round, name_of(transfer.form), box.row, box.row + box.rows, box.col, box.col + box.cols,
        transfer.from, printable(from.tensor), from.row, from.col, transfer.to, printable(to.tensor),
        to.matrix > 0 ? fmt::format("[{}]", to.matrix) : "", to.row, to.col);
  }
  return text;
}

}  // namespace

std::string plan_text(const Report& report) {
  std::string text = heading(report) + links(report.summary) + per_rank(report.summary) + schedule(report) +
                     floors(report.summary);
  if (report.rank) {
    text += peers(fmt::format("rank {} sends to", report.rank->rank), report.rank->receivers);
    text += peers(fmt::format("rank {} receives from", report.rank->rank), report.rank->senders);
  }
  if (report.explained) text += explained(*report.explained);
  for (const std::string& note : report.notes) text += fmt::format("note: {}\n", printable(note));
  return text;
}

}  // namespace refit::apps
