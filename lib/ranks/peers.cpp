// Tokens are for everybody; a descriptor is opened where its owner has it.
#include "ranks/peers.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/json.hpp"
#include "refit/base/error.hpp"

namespace refit::ranks {
namespace {

std::string offer(const device::Memory* own, const std::string& host) {
  if (own == nullptr) return {};
  const device::Memory::Handle handle = own->handle();
  const Json out = {{"host", host},
                    {"process", ::getpid()},
                    {"descriptor", handle.fd},
                    {"token", Json::binary({handle.token.begin(), handle.token.end()})},
                    {"bytes", own->bytes().size()}};
  const std::vector<std::uint8_t> bytes = Json::to_cbor(out);
  return {bytes.begin(), bytes.end()};
}

/// A copy of another rank's descriptor: a memfd opens once more through /proc, and what does not is here when
/// the rank is a thread of this process.
transport::UniqueFd descriptor_of(int process, int descriptor, const std::string& what) {
  if (descriptor < 0) return {};
  if (process == ::getpid()) return transport::UniqueFd(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  const std::string path = fmt::format("/proc/{}/fd/{}", process, descriptor);
  transport::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) fail_runtime(fmt::format("{} cannot be opened: {}: {}", what, path, std::strerror(errno)));
  return fd;
}

}  // namespace

Peers::Peers(transport::Group& group, device::Backend& backend, const device::Memory* own,
             const std::string& host, Deadline deadline)
    : opened_(group.size()) {
  const std::vector<std::string> offers = group.all_gather(offer(own, host), deadline);
  for (std::uint32_t process = 0; process < offers.size(); ++process) {
    if (process == group.rank() || offers[process].empty()) continue;
    const Json in = Json::from_cbor(offers[process].begin(), offers[process].end());
    const std::string what = fmt::format("rank {}'s parameters", process);
    if (in.at("host") != host) {
      fail_runtime(
          fmt::format("{} are on host {}, this rank is on {}: --transport peer is for ranks of one host",
                      what, in.at("host").get<std::string>(), host));
    }
    const auto& token = in.at("token").get_binary();
    opened_[process] =
        backend.open({token.begin(), token.end()},
                     descriptor_of(in.at("process").get<int>(), in.at("descriptor").get<int>(), what),
                     in.at("bytes").get<std::uint64_t>(), what);
  }
}

}  // namespace refit::ranks
