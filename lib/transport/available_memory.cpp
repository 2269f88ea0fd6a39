// How much memory can still be had: the machine's view, narrowed by every cgroup above this process.
#include "transport/available_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "refit/base/error.hpp"
#include "refit/transport/shared_memory.hpp"

namespace refit::transport {

namespace {

namespace fs = std::filesystem;

/// The files of one cgroup version's memory controller.
struct Controller {
  fs::path root;
  const char* limit;
  const char* usage;
  const char* active_file;  ///< keys of memory.stat, with the children's pages
  const char* inactive_file;
};

/// Nothing for a missing file, and for the word "max".
std::optional<std::uint64_t> read_number(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  return in >> value ? std::optional(value) : std::nullopt;
}

/// The number after `key` in a file of "key value" lines; 0 when it is not there.
std::uint64_t read_key(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  std::string word, rest;
  std::uint64_t value = 0;
  while (in >> word) {
    if (word == key && in >> value) return value;
    std::getline(in, rest);
  }
  return 0;
}

/// What `dir` still lets its processes take. The page cache counts as used and is dropped on demand.
std::uint64_t allowed(const Controller& controller, const fs::path& dir) {
  const auto limit = read_number(dir / controller.limit);
  const auto usage = read_number(dir / controller.usage);
  if (!limit || !usage) return std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t cache = read_key(dir / "memory.stat", controller.active_file) +
                              read_key(dir / "memory.stat", controller.inactive_file);
  const std::uint64_t held = *usage - std::min(*usage, cache);
  return *limit - std::min(*limit, held);
}

/// The least that the cgroup `path` and those above it allow. A container may see the host's path here and
/// only its own group at the root: levels that do not exist are passed over.
std::uint64_t allowed_down_to(const Controller& controller, const fs::path& path) {
  fs::path dir = controller.root;
  std::uint64_t least = allowed(controller, dir);
  for (const fs::path& level : path.relative_path()) {
    dir /= level;
    least = std::min(least, allowed(controller, dir));
  }
  return least;
}

}  // namespace

std::uint64_t available_memory(const fs::path& proc, const fs::path& cgroup) {
  // Unknown is not zero: without an answer the allocation itself decides.
  std::uint64_t available = std::numeric_limits<std::uint64_t>::max();
  if (const std::uint64_t kib = read_key(proc / "meminfo", "MemAvailable:"); kib > 0) available = 1024 * kib;
  const Controller v1{cgroup / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                      "total_active_file", "total_inactive_file"};
  const Controller v2{cgroup, "memory.max", "memory.current", "active_file", "inactive_file"};
  // Lines of ID:CONTROLLERS:PATH; no controllers means version 2.
  std::ifstream groups(proc / "self" / "cgroup");
  for (std::string line; std::getline(groups, line);) {
    std::istringstream fields(line);
    std::string id, controllers, path;
    std::getline(fields, id, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, path);
    if (controllers.empty()) available = std::min(available, allowed_down_to(v2, path));
    if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      available = std::min(available, allowed_down_to(v1, path));
    }
  }
  return available;
}

std::uint64_t available_memory() {
  return available_memory("/proc", "/sys/fs/cgroup");
}

}  // namespace refit::transport
