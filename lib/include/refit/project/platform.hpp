// Hardware that a refit is projected onto: scenarios/platforms/NAME.json, schema refit-platform/1.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "refit/project/figure.hpp"
#include "refit/run/result.hpp"

namespace refit::project {

inline constexpr std::string_view kPlatformSchema = "refit-platform/1";

/// One GPU and what it reaches. Bandwidths are of one GPU, in bytes a second; nominal ones become what is
/// reached by the efficiency beside them.
struct Platform {
  std::string name, title;
  Figure memory_bytes;
  Figure memory_bandwidth;   ///< reads and writes together, nominal
  Figure memory_efficiency;  ///< what a plain copy reaches of it
  Figure peer_bandwidth;     ///< to GPUs of its NVLink domain, each way, nominal
  Figure peer_efficiency;
  Figure network_bandwidth;  ///< to GPUs of other domains, each way, nominal
  Figure network_efficiency;
  Figure host_bandwidth;     ///< to pinned host memory, each way, as reached
  Figure kernel_efficiency;  ///< of kernels that quantize, pack and place, over a plain copy
  Figure shared_efficiency;  ///< of the same while two processes use the GPU at once
  Figure kernel_s;           ///< the least that a kernel takes on the GPU
  Fitted host_cost;          ///< time of host work over that on the host where a stack's costs were found
  Figure gpus_per_node, gpus_per_domain;

  [[nodiscard]] double copy_rate() const noexcept { return memory_bandwidth.value * memory_efficiency.value; }
  [[nodiscard]] double peer_rate() const noexcept { return peer_bandwidth.value * peer_efficiency.value; }
  [[nodiscard]] double network_rate() const noexcept {
    return network_bandwidth.value * network_efficiency.value;
  }
};

/// Error(input) that begins with the file and the JSON pointer: a key missing or unknown, a figure without a
/// source, a value out of range.
[[nodiscard]] Platform load_platform(const std::filesystem::path& file);

/// By name, in platforms/ of scenario::directories(), or a path when it has a '/' or ends in ".json".
/// Error(input) with the nearest names.
[[nodiscard]] Platform find_platform(const std::string& name_or_file);

/// The machine that a bench ran on, all of whose GPUs reach each other: what it measured of memory and links.
/// Where it measured no link, there was nobody to reach, and links are as fast as memory.
[[nodiscard]] Platform measured_platform(const run::CopyBandwidth& copy);

/// The file names without ".json", sorted.
[[nodiscard]] std::vector<std::string> platform_names();

}  // namespace refit::project
