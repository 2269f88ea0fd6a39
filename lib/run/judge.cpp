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

void judge_coverage(const Judgement& what, const RefitRecord& record, ThreadPool& pool,
                    verify::Result& result) {
  const plan::Plan& plan = what.arm.plan;
  const bool staged = what.arm.switches.pipeline == plan::Pipeline::staged;
  result.merge(verify::check_executed(plan, staged ? record.generator.evidence.executed : record.executed,
                                      staged, pool));
  const std::vector<std::uint64_t> second = verify::destination_digests(plan, what.destinations, pool);
  result.merge(verify::check_poison(plan, what.first_digests, second, what.destinations, what.poison));
  result.merge(verify::check_guards(verify::source_extents(plan), what.sources));
  result.merge(verify::check_guards(verify::destination_extents(plan), what.destinations));
  if (!record.sent.guards_intact) {
    result.add({"(staging buffer)", 0, "guard bytes", "other bytes", 1,
                "written beyond the end of a staging buffer"});
  }
  judge_version(what, result);
}

}  // namespace

verify::Verdict judge(const Judgement& what, const RefitRecord& record, ThreadPool& pool) {
  const plan::Plan& plan = what.arm.plan;
  const plan::Wire& wire = what.arm.wire;
  const bool staged = what.arm.switches.pipeline == plan::Pipeline::staged;
  const auto wanted = [&](Check check) {
    return std::find(what.without.begin(), what.without.end(), check) == what.without.end();
  };
  verify::Verdict verdict;
  const verify::WireEvidence evidence{record.sent.sent, record.generator.evidence.received,
                                      record.generator.evidence.times_received};
  if (wanted(Check::wire)) {
    verdict[Check::wire].merge(
        staged ? verify::check_wire(wire, evidence)
               : verify::check_mapping(plan, verify::destination_digests(plan, what.destinations, pool),
                                       record.generator.destination_digests));
  }
  if (wanted(Check::quantizer)) verdict[Check::quantizer].merge(record.sent.packed);
  if (staged && wire.prequantized) {
    if (wanted(Check::layout)) {
      // What was sent right and arrived as it was sent needs no mask, and no second pass of the scalar
      // reference.
      const bool arrived_right = record.sent.packed.mismatches == 0 && evidence.sent == evidence.received;
      const std::vector<bool> masked =
          arrived_right ? std::vector<bool>{} : verify::mask_of(plan, wire, evidence, what.sources, pool);
      verdict[Check::layout].merge(verify::check_layout(plan, what.sources, what.destinations, masked, pool));
    }
  } else if (wanted(Check::quantizer) || wanted(Check::layout)) {
    verify::InPlace in_place = verify::check_in_place(plan, what.sources, what.destinations, pool);
    if (wanted(Check::quantizer)) verdict[Check::quantizer].merge(std::move(in_place.quantizer));
    if (wanted(Check::layout)) verdict[Check::layout].merge(std::move(in_place.layout));
  }
  if (wanted(Check::coverage)) judge_coverage(what, record, pool, verdict[Check::coverage]);
  return verdict;
}

}  // namespace refit::run
