// Which evidence goes to which check, for each pipeline.
#include "run/judge.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace refit::run {
namespace {

using verify::Check;

void judge_version(const Judgement& what, verify::Result& result) {
  if (what.committed_version == what.announced_version) return;
  result.add({"(version)", 0, fmt::format("{}", what.announced_version),
              fmt::format("{}", what.committed_version), 1,
              "the generator committed another version than was announced"});
}

void judge_coverage(const Judgement& what, const RefitRecord& record, device::Checker& checker,
                    ThreadPool& pool, verify::Result& result) {
  const plan::Plan& plan = what.arm.plan;
  const plan::Switches& switches = what.arm.switches;
  const bool staged = switches.pipeline == plan::Pipeline::staged;
  const bool canonical = staged && switches.shuffle != plan::Shuffle::fused;
  result.merge(verify::check_executed(plan, staged ? record.generator.evidence.executed : record.executed,
                                      canonical, pool));
  const std::vector<std::uint64_t> second = device::destination_digests(checker, plan, what.destinations);
  result.merge(checker.check_poison(plan, what.first_digests, second, what.destinations, what.poison));
  result.merge(checker.check_guards(verify::source_extents(plan), what.sources));
  result.merge(checker.check_guards(verify::destination_extents(plan), what.destinations));
  if (!record.sent.guards_intact) {
    result.add({"(staging buffer)", 0, "guard bytes", "other bytes", 1,
                "written beyond the end of a staging buffer"});
  }
  judge_version(what, result);
}

/// Segments whose bytes arrived other than the reference's; none when everything did arrive right.
std::vector<bool> masked_segments(const Judgement& what, const RefitRecord& record,
                                  const verify::WireEvidence& evidence) {
  if (record.sent.packed.mismatches == 0 && evidence.sent == evidence.received) return {};
  std::vector<bool> wrong = record.sent.wrong_entries;
  wrong.resize(what.arm.wire.entries.size());
  return verify::mask_of(what.arm.plan, what.arm.wire, evidence, wrong);
}

}  // namespace

verify::Verdict judge(const Judgement& what, const RefitRecord& record, device::Backend& backend,
                      ThreadPool& pool) {
  const plan::Plan& plan = what.arm.plan;
  const plan::Wire& wire = what.arm.wire;
  const bool staged = what.arm.switches.pipeline == plan::Pipeline::staged;
  device::Checker& checker = backend.checker();
  const auto wanted = [&](Check check) {
    return std::find(what.without.begin(), what.without.end(), check) == what.without.end();
  };
  verify::Verdict verdict;
  const verify::WireEvidence evidence{record.sent.sent, record.generator.evidence.received,
                                      record.generator.evidence.times_received};
  if (wanted(Check::wire)) {
    verdict[Check::wire].merge(
        staged ? verify::check_wire(wire, evidence)
               : verify::check_mapping(plan, device::destination_digests(checker, plan, what.destinations),
                                       record.generator.destination_digests));
  }
  if (wanted(Check::quantizer)) verdict[Check::quantizer].merge(record.sent.packed);
  const std::vector<bool> masked = staged ? masked_segments(what, record, evidence) : std::vector<bool>{};
  if (staged && wire.prequantized) {
    if (wanted(Check::layout)) {
      verdict[Check::layout].merge(checker.check_layout(plan, what.sources, what.destinations, masked));
    }
  } else if (wanted(Check::quantizer) || wanted(Check::layout)) {
    verify::InPlace in_place = checker.check_in_place(plan, what.sources, what.destinations, masked);
    if (wanted(Check::quantizer)) verdict[Check::quantizer].merge(std::move(in_place.quantizer));
    if (wanted(Check::layout)) verdict[Check::layout].merge(std::move(in_place.layout));
  }
  if (wanted(Check::coverage)) judge_coverage(what, record, checker, pool, verdict[Check::coverage]);
  return verdict;
}

}  // namespace refit::run
