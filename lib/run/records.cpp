// Control messages as CBOR: self-describing, and short for the long arrays of evidence.
#include "run/records.hpp"

#include <fmt/format.h>

#include "base/json.hpp"
#include "refit/base/error.hpp"
#include "run/recording_codec.hpp"

namespace refit::run {
namespace {

template <typename Read>
auto reading(const char* what, std::string_view body, Read read) {
  try {
    return read(Json::from_cbor(body.begin(), body.end()));
  } catch (const Json::exception& error) {
    fail_runtime(fmt::format("a '{}' message cannot be read: {}", what, error.what()));
  }
}

/// CBOR text has to be UTF-8; a token is any bytes.
Json as_binary(const std::string& bytes) {
  return Json::binary({bytes.begin(), bytes.end()});
}

std::string to_body(const Json& json) {
  const std::vector<std::uint8_t> bytes = Json::to_cbor(json);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::string encode(const ReadyRecord& r) {
  Json handles = Json::array();
  for (const auto& handle : r.handles) handles.push_back({as_binary(handle.token), handle.has_fd});
  return to_body({{"handles", std::move(handles)},
                  {"plan_digest", {r.plan_digest[0], r.plan_digest[1]}},
                  {"parameter_bytes", r.parameter_bytes},
                  {"sets", r.sets}});
}

ReadyRecord decode_ready(std::string_view body) {
  return reading("ready", body, [](const Json& in) {
    ReadyRecord r;
    r.plan_digest[0] = in.at("plan_digest").at(0).get<std::uint64_t>();
    r.plan_digest[1] = in.at("plan_digest").at(1).get<std::uint64_t>();
    r.parameter_bytes = in.at("parameter_bytes").get<std::uint64_t>();
    r.sets = in.at("sets").get<std::uint32_t>();
    for (const Json& handle : in.at("handles")) {
      const auto& token = handle.at(0).get_binary();
      r.handles.push_back({std::string(token.begin(), token.end()), handle.at(1).get<bool>()});
    }
    return r;
  });
}

std::string encode(const BeginRecord& r) {
  return to_body({{"arm", r.arm},
                  {"version", r.version},
                  {"verify", r.verify},
                  {"profile", r.profile},
                  {"poison", r.poison}});
}

BeginRecord decode_begin(std::string_view body) {
  return reading("begin", body, [](const Json& in) {
    return BeginRecord{in.at("arm").get<std::uint32_t>(), in.at("version").get<std::uint64_t>(),
                       in.at("verify").get<bool>(), in.at("profile").get<bool>(),
                       in.at("poison").get<std::uint8_t>()};
  });
}

std::string encode(const BegunRecord& r) {
  return to_body({{"set", r.set}});
}

BegunRecord decode_begun(std::string_view body) {
  return reading("begun", body,
                 [](const Json& in) { return BegunRecord{in.at("set").get<std::uint32_t>()}; });
}

std::string encode(const RecallRecord& r) {
  return to_body({{"arm", r.arm}});
}

RecallRecord decode_recall(std::string_view body) {
  return reading("recall", body,
                 [](const Json& in) { return RecallRecord{in.at("arm").get<std::uint32_t>()}; });
}

KeptRecord kept_of(const Timeline& timeline, const MemoryLedger& ledger, const device::Backend& backend) {
  KeptRecord kept{timeline.recording(), {ledger.changes().begin(), ledger.changes().end()}};
  for (MemoryChange& change : kept.memory) change.bytes += backend.own_bytes();
  return kept;
}

std::string encode(const KeptRecord& r) {
  Json memory = Json::array();
  for (const MemoryChange& change : r.memory) {
    memory.push_back(change.at.time_since_epoch().count());
    memory.push_back(change.bytes);
  }
  return to_body({{"recording", encode_recording(r.recording)}, {"memory", std::move(memory)}});
}

KeptRecord decode_kept(std::string_view body) {
  return reading("recording", body, [](const Json& in) {
    KeptRecord r{recording_of(in.at("recording")), {}};
    const Json& memory = in.at("memory");
    for (std::size_t i = 0; i < memory.size(); i += 2) {
      r.memory.push_back({Clock::time_point(Clock::duration(memory.at(i).get<Clock::rep>())),
                          memory.at(i + 1).get<std::uint64_t>()});
    }
    return r;
  });
}

std::string encode(const CommittedRecord& r) {
  Json stages = Json::array();
  for (const auto& stage : r.stages)
    stages.push_back({stage.name, stage.seconds, stage.bytes, stage.launches});
  Json device_stages = Json::array();
  for (const auto& stage : r.device_stages) device_stages.push_back({stage.name, stage.seconds});
  Json executed = Json::array();
  for (const auto& e : r.evidence.executed) {
    executed.push_back(e.segment);
    executed.push_back(e.row_begin);
    executed.push_back(e.rows);
  }
  return to_body({{"version", r.version},
                  {"wall", r.wall},
                  {"unattributed", r.unattributed},
                  {"stages", std::move(stages)},
                  {"device_stages", std::move(device_stages)},
                  {"peak_extra_bytes", r.peak_extra_bytes},
                  {"handles_opened", r.handles_opened},
                  {"handles_left", r.handles_left},
                  {"fault_acted", r.fault_acted},
                  {"received", r.evidence.received},
                  {"times_received", r.evidence.times_received},
                  {"executed", std::move(executed)},
                  {"destination_digests", r.destination_digests}});
}

CommittedRecord decode_committed(std::string_view body) {
  return reading("committed", body, [](const Json& in) {
    CommittedRecord r;
    r.version = in.at("version").get<std::uint64_t>();
    r.wall = in.at("wall").get<double>();
    r.unattributed = in.at("unattributed").get<double>();
    for (const Json& stage : in.at("stages")) {
      r.stages.push_back({stage.at(0).get<std::string>(), stage.at(1).get<double>(),
                          stage.at(2).get<std::uint64_t>(), stage.at(3).get<std::uint64_t>()});
    }
    for (const Json& stage : in.at("device_stages")) {
      r.device_stages.push_back({stage.at(0).get<std::string>(), stage.at(1).get<double>()});
    }
    r.peak_extra_bytes = in.at("peak_extra_bytes").get<std::uint64_t>();
    r.handles_opened = in.at("handles_opened").get<std::uint64_t>();
    r.handles_left = in.at("handles_left").get<std::uint64_t>();
    r.fault_acted = in.at("fault_acted").get<bool>();
    r.evidence.received = in.at("received").get<std::vector<std::uint64_t>>();
    r.evidence.times_received = in.at("times_received").get<std::vector<std::uint32_t>>();
    const Json& executed = in.at("executed");
    for (std::size_t i = 0; i + 2 < executed.size(); i += 3) {
      r.evidence.executed.push_back({executed[i].get<std::uint32_t>(), executed[i + 1].get<std::uint64_t>(),
                                     executed[i + 2].get<std::uint64_t>()});
    }
    r.destination_digests = in.at("destination_digests").get<std::vector<std::uint64_t>>();
    return r;
  });
}

}  // namespace refit::run
