// How a generator finds the parameter that a key belongs to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "refit/plan/plan.hpp"
#include "refit/plan/switches.hpp"
#include "refit/plan/wire.hpp"

namespace refit::run {

/// Where the first row of an entry's segment lands.
struct Route {
  std::uint32_t destination = plan::kNone;
  std::uint64_t matrix = 0;
  std::uint64_t row_begin = 0;
};

/// loader=lookup walks, for every key of every refit, the list of (substring, parameter, expert) that vLLM's
/// load_weights walks (stacked_params_mapping, then expert_params_mapping with 3 rows an expert), rewrites
/// the name and looks the parameter up; loader=cached does so in the first refit and keeps the routes.
class LoaderRoutes {
 public:
  LoaderRoutes(const plan::Plan& plan, const plan::Wire& wire, plan::Loader loader);

  /// Error(input) naming the key when it leads to no parameter.
  [[nodiscard]] Route find(std::uint32_t entry);

 private:
  struct Mapping {
    std::string source;  ///< substring of a checkpoint name: ".q_proj.", ".experts.7.up_proj."
    std::string target;  ///< what takes its place: ".qkv_proj.", ".experts.w13_"
    std::uint64_t matrix = 0;
    std::string shard;  ///< the projection: "q_proj", "up_proj"
  };
  void add_mapping(const plan::Segment& segment);
  [[nodiscard]] Route resolve(const std::string& name) const;

  const plan::Plan& plan_;
  const plan::Wire& wire_;
  plan::Loader loader_;
  std::vector<Mapping> mappings_;
  std::unordered_set<std::string> known_;  ///< sources of mappings_
  std::unordered_map<std::string, std::uint32_t> parameters_;
  std::vector<std::unordered_map<std::string, std::uint64_t>> shard_rows_;  ///< per destination
  std::vector<Route> cache_;
};

}  // namespace refit::run
