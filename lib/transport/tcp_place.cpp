// Reading the variables of a launcher.
//
// torchrun sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT,
// TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT, and TORCHELASTIC_USE_AGENT_STORE to "True" where its agent
// listens at MASTER_PORT. Sources: pytorch, torch/distributed/elastic/agent/server/local_elastic_agent.py
// (_start_workers) and torch/distributed/rendezvous.py (_create_c10d_store).
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "refit/base/error.hpp"
#include "refit/base/printable.hpp"
#include "refit/transport/tcp.hpp"

namespace refit::transport::tcp {
namespace {

/// A rank has two connections to each of the others.
constexpr std::uint32_t kMostRanks = 65536;

[[noreturn]] void refuse(const char* name, std::string_view value, const std::string& why) {
  fail_input(fmt::format("{} is \"{}\", and {}", name, printable(value.substr(0, 100)), why));
}

std::uint32_t number(const char* name, std::uint32_t least, std::uint32_t most) {
  const std::string_view text = std::getenv(name);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    refuse(name, text, fmt::format("has to be a number from {} to {}", least, most));
  }
  return value;
}

bool is_set(const char* name) noexcept {
  return std::getenv(name) != nullptr;
}

std::string text_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The variables of a rank's number and of how many there are.
struct Names {
  const char *rank, *size;
};
constexpr Names kTorch{"RANK", "WORLD_SIZE"}, kSlurm{"SLURM_PROCID", "SLURM_NTASKS"};

bool are_set(const Names& names) noexcept {
  return is_set(names.rank) && is_set(names.size);
}

std::uint16_t port() {
  constexpr std::uint32_t last = std::numeric_limits<std::uint16_t>::max();
  if (is_set("REFIT_MASTER_PORT")) return static_cast<std::uint16_t>(number("REFIT_MASTER_PORT", 1, last));
  std::uint32_t port = number("MASTER_PORT", 1, last);
  if (text_of("TORCHELASTIC_USE_AGENT_STORE") == "True" && ++port > last) {
    refuse("MASTER_PORT", text_of("MASTER_PORT"),
           "torchrun listens there itself: there is no port after it; set REFIT_MASTER_PORT to another");
  }
  return static_cast<std::uint16_t>(port);
}

}  // namespace

bool launched() noexcept {
  return is_set("MASTER_ADDR") && is_set("MASTER_PORT") && (are_set(kTorch) || are_set(kSlurm));
}

Place place_from_environment() {
  const Names names = are_set(kTorch) ? kTorch : kSlurm;
  Place place;
  place.size = number(names.size, 1, kMostRanks);
  place.rank = number(names.rank, 0, kMostRanks);
  if (place.rank >= place.size) {
    refuse(names.rank, text_of(names.rank),
           fmt::format("{} is {}: ranks count from 0", names.size, place.size));
  }
  place.host = text_of("MASTER_ADDR");
  if (place.host.empty()) refuse("MASTER_ADDR", "", "has to be a name or an address of rank 0's host");
  place.port = port();
  if (is_set("LOCAL_WORLD_SIZE")) place.ranks_on_this_host = number("LOCAL_WORLD_SIZE", 1, place.size);
  if (is_set("LOCAL_RANK")) {
    place.local_rank = number("LOCAL_RANK", 0, place.ranks_on_this_host.value_or(place.size) - 1);
  }
  // A second attempt of the same run does not meet ranks of the first.
  place.run = text_of("TORCHELASTIC_RUN_ID") + "\n" + text_of("TORCHELASTIC_RESTART_COUNT");
  return place;
}

}  // namespace refit::transport::tcp
