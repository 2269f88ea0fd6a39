// The wire check: what arrived is what was sent, from digests alone.
#include <fmt/format.h>

#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "verify/evidence.hpp"

namespace refit::verify {
namespace {

void require_count(std::string_view what, std::size_t have, std::size_t need) {
  if (have != need) {
    fail_input(fmt::format("The wire check needs {} {}, and {} were recorded.", need, what, have));
  }
}

Finding other_digest(std::string tensor, std::uint64_t sent, std::uint64_t received, std::string what) {
  return {.tensor = std::move(tensor),
          .index = 0,
          .expected = "digest " + digest_hex(sent),
          .got = "digest " + digest_hex(received),
          .count = 1,
          .what = std::move(what)};
}

}  // namespace

void require_evidence(const plan::Wire& wire, const WireEvidence& evidence) {
  require_count("digests of entries sent", evidence.sent.size(), wire.entries.size());
  require_count("digests of entries received", evidence.received.size(), wire.entries.size());
  require_count("counts of entries received", evidence.times_received.size(), wire.entries.size());
}

Result check_wire(const plan::Wire& wire, const WireEvidence& evidence) {
  require_evidence(wire, evidence);
  Result result;
  for (std::size_t i = 0; i < wire.entries.size(); ++i) {
    const plan::WireEntry& entry = wire.entries[i];
    const std::uint32_t times = evidence.times_received[i];
    result.bytes += entry.bytes;
    if (times != 1) {
      result.add({.tensor = entry.name,
                  .index = 0,
                  .expected = "received once",
                  .got = times == 0 ? "never received" : fmt::format("received {} times", times),
                  .count = 1,
                  .what = times == 0 ? "key never arrived" : "key arrived more than once"});
    } else if (evidence.sent[i] != evidence.received[i]) {
      result.add(other_digest(entry.name, evidence.sent[i], evidence.received[i],
                              "arrived with other bytes than were sent"));
    }
  }
  return result;
}

Result check_mapping(const plan::Plan& plan, std::span<const std::uint64_t> sender,
                     std::span<const std::uint64_t> receiver) {
  require_count("digests of parameters by the sender", sender.size(), plan.destinations.size());
  require_count("digests of parameters by the receiver", receiver.size(), plan.destinations.size());
  Result result;
  for (std::size_t i = 0; i < plan.destinations.size(); ++i) {
    const TensorSpec& spec = plan.destinations[i].spec;
    result.bytes += spec.bytes();
    if (sender[i] != receiver[i]) {
      result.add(other_digest(spec.name, sender[i], receiver[i], "sender and receiver see other bytes"));
    }
  }
  return result;
}

}  // namespace refit::verify
