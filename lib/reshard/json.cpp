// A report as JSON: scenarios/schema/refit-plan-1.schema.json.
#include "base/json.hpp"
#include "refit/base/digest.hpp"
#include "refit/reshard/report.hpp"

namespace refit::reshard {
namespace {

template <typename Value>
OrderedJson known(const std::optional<Value>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson json_of(const Spread& spread) {
  return {{"min", spread.least}, {"median", spread.median}, {"max", spread.most}};
}

OrderedJson json_of(const Floor& floor) {
  return {{"bytes", floor.bytes}, {"seconds", known(floor.seconds)}};
}

OrderedJson json_of(const std::optional<Floor>& floor) {
  return floor ? json_of(*floor) : OrderedJson(nullptr);
}

OrderedJson json_of(const std::vector<Peer>& peers) {
  OrderedJson array = OrderedJson::array();
  for (const Peer& peer : peers) {
    array.push_back({{"rank", peer.rank},
                     {"link", name_of(peer.link)},
                     {"bytes", peer.bytes},
                     {"transfers", peer.transfers},
                     {"rounds", peer.rounds}});
  }
  return array;
}

OrderedJson json_of(const Place& place) {
  return {{"tensor", place.tensor}, {"matrix", place.matrix}, {"row", place.row}, {"col", place.col}};
}

OrderedJson json_of(const PlacedTransfer& placed) {
  const Box& box = placed.box;
  OrderedJson from = json_of(placed.from), to = json_of(placed.to);
  from["rank"] = placed.transfer.from;
  to["rank"] = placed.transfer.to;
  return {{"round", placed.transfer.round},
          {"form", name_of(placed.transfer.form)},
          {"box", {{"row", box.row}, {"rows", box.rows}, {"col", box.col}, {"cols", box.cols}}},
          {"from", std::move(from)},
          {"to", std::move(to)}};
}

OrderedJson side_json(const Parallelism& parallelism) {
  return {{"parallelism", to_string(parallelism)}, {"ranks", parallelism.ranks()}};
}

OrderedJson options_json(const Options& options) {
  const bool hosts_known = options.gpus_per_node > 0;
  return {{"colocated", options.colocated},
          {"prequantize", options.prequantize},
          {"round_bytes", options.round_bytes},
          {"gpus_per_node", hosts_known ? OrderedJson(options.gpus_per_node) : OrderedJson(nullptr)}};
}

OrderedJson bytes_json(const Report& report) {
  const Summary& summary = report.summary;
  return {{"same_process", summary.process_bytes},           {"same_host", known(summary.host_bytes)},
          {"between_hosts", known(summary.network_bytes)},   {"other_process", summary.remote_bytes},
          {"replicated", report.plan.replicated_bytes},      {"sent_of_a_rank", json_of(summary.sent)},
          {"received_of_a_rank", json_of(summary.received)}, {"peak_extra", summary.peak_extra_bytes}};
}

OrderedJson rank_json(const std::optional<Report::Rank>& rank) {
  if (!rank) return nullptr;
  return {{"rank", rank->rank}, {"sends", json_of(rank->receivers)}, {"receives", json_of(rank->senders)}};
}

OrderedJson explained_json(const std::optional<Report::Explained>& explained) {
  if (!explained) return nullptr;
  OrderedJson segments = OrderedJson::array();
  for (const PlacedTransfer& placed : explained->segments) segments.push_back(json_of(placed));
  return {{"tensor", explained->tensor}, {"segments", std::move(segments)}};
}

}  // namespace

std::string to_json(const Report& report) {
  OrderedJson trainer = side_json(report.trainer);
  trainer["form"] = name_of(report.trainer_form);
  const OrderedJson json = {{"schema", kPlanSchema},
                            {"model",
                             {{"name", report.name},
                              {"tensors", report.tensors},
                              {"quantized_tensors", report.quantized_tensors},
                              {"late_quantized_tensors", report.plan.late_quantized_tensors},
                              {"bytes", report.bytes}}},
                            {"trainer", std::move(trainer)},
                            {"generator", side_json(report.generator)},
                            {"options", options_json(report.plan.options)},
                            {"bytes", bytes_json(report)},
                            {"transfers", report.plan.transfers},
                            {"messages", report.plan.messages},
                            {"rounds", report.plan.rounds},
                            {"imbalance", known(report.summary.imbalance)},
                            {"floors",
                             {{"memory", json_of(report.summary.memory)},
                              {"same_host", json_of(report.summary.host)},
                              {"between_hosts", json_of(report.summary.network)}}},
                            {"digest", digest_hex(report.plan.digest)},
                            {"notes", report.notes},
                            {"rank", rank_json(report.rank)},
                            {"explained", explained_json(report.explained)}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace refit::reshard
