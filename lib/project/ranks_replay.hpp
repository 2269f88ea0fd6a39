// Replays the rounds of many ranks: lib/ranks' loop on every rank at once.
#pragma once

#include "project/replayed.hpp"
#include "refit/plan/switches.hpp"
#include "refit/project/platform.hpp"
#include "refit/project/stack.hpp"
#include "refit/reshard/loads.hpp"

namespace refit::project {

struct RanksLoad {
  reshard::Loads loads;
  bool colocated = true;
  unsigned slots = 2;
  plan::Switches switches;
  bool peer = false;  ///< over peer memory, else by messages
  /// Every rank reaches every parameter: what it makes is copied to where it belongs, nothing is packed.
  [[nodiscard]] bool writes() const noexcept { return peer && switches.pipeline == plan::Pipeline::direct; }
  /// A rank copies what the others have packed, when it comes to that round.
  [[nodiscard]] bool pulls() const noexcept { return peer && !writes(); }
};

[[nodiscard]] Replayed replay(const RanksLoad& load, const Platform& platform, const Stack& stack);

}  // namespace refit::project
