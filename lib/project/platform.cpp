// Strict reading of a platform.
#include "refit/project/platform.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

#include "project/files.hpp"
#include "refit/base/printable.hpp"

namespace refit::project {
namespace {

constexpr double kGiga = 1e9;
constexpr double kLeast = 1e-9;  // so that no product of figures is nothing

struct Key {
  std::string_view name;
  Figure Platform::*figure;
  double unit;
  double most;  ///< of the value as it stands
};

constexpr std::array kKeys{
    Key{"memory_gb", &Platform::memory_bytes, kGiga, 1e6},
    Key{"memory_gbps", &Platform::memory_bandwidth, kGiga, 1e6},
    Key{"memory_efficiency", &Platform::memory_efficiency, 1, 1},
    Key{"peer_gbps", &Platform::peer_bandwidth, kGiga, 1e6},
    Key{"peer_efficiency", &Platform::peer_efficiency, 1, 1},
    Key{"network_gbps", &Platform::network_bandwidth, kGiga, 1e6},
    Key{"network_efficiency", &Platform::network_efficiency, 1, 1},
    Key{"host_gbps", &Platform::host_bandwidth, kGiga, 1e6},
    Key{"kernel_efficiency", &Platform::kernel_efficiency, 1, 2},
    Key{"shared_efficiency", &Platform::shared_efficiency, 1, 1},
    Key{"kernel_s", &Platform::kernel_s, 1, 1},
    Key{"gpus_per_node", &Platform::gpus_per_node, 1, 65536},
    Key{"gpus_per_domain", &Platform::gpus_per_domain, 1, 65536},
};

}  // namespace

Platform load_platform(const std::filesystem::path& file) {
  const Json root = read_json_file(file.string());
  const JsonNode node(root, file.string());
  std::vector<std::string_view> known{"schema", "name", "title", "host_cost"};
  for (const Key& key : kKeys) known.push_back(key.name);
  node.require_known(known);
  const Head head = read_head(node, kPlatformSchema, file);
  Platform platform;
  platform.name = head.name;
  platform.title = head.title;
  for (const Key& key : kKeys) {
    const JsonNode figure = node.at(key.name);
    platform.*key.figure = read_figure(figure, key.unit);
    const double value = (platform.*key.figure).value / key.unit;
    if (value > key.most) figure.at("value").fail(fmt::format("is above {}", key.most));
    if (value < kLeast) figure.at("value").fail(fmt::format("is below {}", kLeast));
  }
  platform.host_cost = read_fitted(node.at("host_cost"), false);
  for (const std::string_view whole : {"gpus_per_node", "gpus_per_domain"}) {
    const double value = node.at(whole).at("value").number();
    if (value != std::floor(value)) node.at(whole).at("value").fail("is no whole number");
  }
  return platform;
}

Platform find_platform(const std::string& name_or_file) {
  return load_platform(find_file(name_or_file, "platforms", "platform"));
}

std::vector<std::string> platform_names() {
  return names_in("platforms");
}

}  // namespace refit::project
