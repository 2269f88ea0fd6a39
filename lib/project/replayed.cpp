#include "project/replayed.hpp"

namespace refit::project {

std::string_view name_of(Part part) noexcept {
  switch (part) {
    case Part::begin:
      return "begin";
    case Part::pack_host:
      return "pack_host";
    case Part::pack_device:
      return "pack_device";
    case Part::gather_peers:
      return "gather_peers";
    case Part::gather_network:
      return "gather_network";
    case Part::message:
      return "message";
    case Part::load_host:
      return "load_host";
    case Part::load_device:
      return "load_device";
    case Part::relayout_host:
      return "relayout_host";
    case Part::relayout_device:
      return "relayout_device";
    case Part::exchange_peers:
      return "exchange_peers";
    case Part::exchange_network:
      return "exchange_network";
    case Part::exchange_host:
      return "exchange_host";
  }
  return "";
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
