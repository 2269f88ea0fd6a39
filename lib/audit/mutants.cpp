// What became of planted faults, for programs.
#include "refit/audit/mutants.hpp"

#include <cstddef>

#include "base/json.hpp"

namespace refit::audit {

std::string to_json(const std::string& scenario, const std::vector<Mutant>& mutants) {
  std::size_t planted = 0, killed = 0;
  OrderedJson list = OrderedJson::array();
  for (const Mutant& mutant : mutants) {
    const bool is_killed = mutant.planted && !mutant.found.empty();
    planted += mutant.planted ? 1 : 0;
    killed += is_killed ? 1 : 0;
    list.push_back({{"fault", mutant.fault},
                    {"what", mutant.what},
                    {"caught_by", mutant.caught_by},
                    {"outcome", !mutant.planted ? "no-victim"
                                : is_killed     ? "killed"
                                                : "survived"},
                    {"found", is_killed ? OrderedJson(mutant.found) : OrderedJson(nullptr)}});
  }
  const OrderedJson json = {{"schema", "refit-mutants/1"},
                            {"scenario", scenario},
                            {"planted", planted},
                            {"killed", killed},
                            {"mutants", std::move(list)}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace refit::audit
