// CBOR: nobody but another rank of the same version reads it.
#include "ranks/row_codec.hpp"

#include <fmt/format.h>

#include "base/json.hpp"
#include "refit/base/error.hpp"
#include "run/recording_codec.hpp"

namespace refit::ranks {
namespace {

Json encode_verdict(const verify::Verdict& verdict) {
  Json out = Json::array();
  for (const verify::Result& result : verdict.results) {
    Json findings = Json::array();
    for (const verify::Finding& f : result.findings) {
      findings.push_back({f.tensor, f.index, f.expected, f.got, f.count, f.what});
    }
    out.push_back({result.bytes, result.mismatches, std::move(findings)});
  }
  return out;
}

verify::Verdict decode_verdict(const Json& in) {
  verify::Verdict verdict;
  for (std::size_t c = 0; c < verdict.results.size(); ++c) {
    verify::Result& result = verdict.results[c];
    result.bytes = in.at(c).at(0).get<std::uint64_t>();
    result.mismatches = in.at(c).at(1).get<std::uint64_t>();
    for (const Json& f : in.at(c).at(2)) {
      result.findings.push_back({f.at(0).get<std::string>(), f.at(1).get<std::uint64_t>(),
                                 f.at(2).get<std::string>(), f.at(3).get<std::string>(),
                                 f.at(4).get<std::uint64_t>(), f.at(5).get<std::string>()});
    }
  }
  return verdict;
}

Json encode_arm(const RankArm& arm) {
  Json stages = Json::array();
  for (const run::StageSamples& s : arm.stages) stages.push_back({s.name, s.seconds, s.bytes, s.launches});
  Json rounds = Json::array();
  for (const RoundTimes& r : arm.rounds) rounds.push_back({r.pack, r.start, r.arrived, r.placed});
  return {{"seconds", arm.seconds},
          {"unattributed", arm.unattributed},
          {"offload", arm.offload},
          {"swap", arm.swap},
          {"stages", std::move(stages)},
          {"rounds", std::move(rounds)},
          {"last", run::encode_recording(arm.last)},
          {"sent", arm.sent},
          {"received", arm.received},
          {"peak", arm.peak_extra_bytes},
          {"most", arm.most_extra_bytes},
          {"floor", arm.floor_bytes},
          {"link", arm.link_bytes},
          {"digest", arm.parameters_digest},
          {"verdict", encode_verdict(arm.verdict)}};
}

RankArm decode_arm(const Json& in) {
  RankArm arm;
  in.at("seconds").get_to(arm.seconds);
  in.at("unattributed").get_to(arm.unattributed);
  in.at("offload").get_to(arm.offload);
  in.at("swap").get_to(arm.swap);
  for (const Json& s : in.at("stages")) {
    run::StageSamples stage;
    stage.name = s.at(0).get<std::string>();
    s.at(1).get_to(stage.seconds);
    stage.bytes = s.at(2).get<std::uint64_t>();
    stage.launches = s.at(3).get<std::uint64_t>();
    arm.stages.push_back(std::move(stage));
  }
  for (const Json& r : in.at("rounds")) {
    arm.rounds.push_back(
        {r.at(0).get<double>(), r.at(1).get<double>(), r.at(2).get<double>(), r.at(3).get<double>()});
  }
  arm.last = run::recording_of(in.at("last"));
  in.at("sent").get_to(arm.sent);
  in.at("received").get_to(arm.received);
  in.at("peak").get_to(arm.peak_extra_bytes);
  in.at("most").get_to(arm.most_extra_bytes);
  in.at("floor").get_to(arm.floor_bytes);
  in.at("link").get_to(arm.link_bytes);
  in.at("digest").get_to(arm.parameters_digest);
  arm.verdict = decode_verdict(in.at("verdict"));
  return arm;
}

}  // namespace

std::string encode_row(const RankRow& row) {
  const Json out = {{"rank", row.rank},
                    {"host", row.host},
                    {"sources", row.source_bytes},
                    {"destinations", row.destination_bytes},
                    {"control", encode_arm(row.control)},
                    {"treatment", encode_arm(row.treatment)}};
  const std::vector<std::uint8_t> bytes = Json::to_cbor(out);
  return {bytes.begin(), bytes.end()};
}

RankRow decode_row(std::string_view bytes) {
  try {
    const Json in = Json::from_cbor(bytes.begin(), bytes.end());
    RankRow row;
    in.at("rank").get_to(row.rank);
    in.at("host").get_to(row.host);
    in.at("sources").get_to(row.source_bytes);
    in.at("destinations").get_to(row.destination_bytes);
    row.control = decode_arm(in.at("control"));
    row.treatment = decode_arm(in.at("treatment"));
    return row;
  } catch (const Json::exception& error) {
    fail_input(fmt::format("a rank's results cannot be read: {}", error.what()));
  }
}

}  // namespace refit::ranks
