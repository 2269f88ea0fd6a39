#include "project/replayed.hpp"

namespace refit::project {

namespace {

/// In the order of the enumeration.
constexpr std::array<std::string_view, kParts> kNamesOfParts{
    "begin",          "pack_host",        "pack_device",  "gather_peers",  "gather_network",
    "message",        "load_host",        "load_device",  "relayout_host", "relayout_device",
    "exchange_peers", "exchange_network", "exchange_host"};

}  // namespace

std::string_view name_of(Part part) noexcept {
  return kNamesOfParts[static_cast<std::size_t>(part)];
}

Replayed replayed(const Engine& engine, Engine::Activity last) {
  Replayed result;
  result.seconds = engine.end(last);
  for (const Engine::Activity activity : engine.critical_path(last)) {
    result.critical.at(engine.work(activity).label) += engine.end(activity) - engine.start(activity);
  }
  return result;
}

}  // namespace refit::project
