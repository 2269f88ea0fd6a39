// Reads what /proc and uname say of the machine.
#include "refit/report/environment.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

namespace refit::report {
namespace {

namespace fs = std::filesystem;

/// The value of a "key : value" line; empty when there is none.
std::string read_field(const char* file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (colon == line.npos || line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1) != key) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == line.npos ? "" : line.substr(begin);
  }
  return "";
}

/// How many CPUs' worth of time cgroup version 2 gives this process, in the tightest of its groups.
double cgroup_cpus() {
  std::ifstream groups("/proc/self/cgroup");
  double least = HUGE_VAL;
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::")) continue;
    fs::path directory = "/sys/fs/cgroup";
    const auto narrow = [&] {
      std::ifstream in(directory / "cpu.max");  // "QUOTA PERIOD" in microseconds, or "max PERIOD"
      double quota = 0, period = 0;
      if (in >> quota >> period && quota > 0 && period > 0) least = std::min(least, quota / period);
    };
    narrow();
    for (const fs::path& level : fs::path(line.substr(3)).relative_path()) {
      directory /= level;
      narrow();
    }
  }
  return least;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[sizeof "2026-01-31T12:00:00Z"];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts));
}

}  // namespace

unsigned usable_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // More CPUs than the set holds: then the machine's number has to do.
  const double affinity = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0
                              ? CPU_COUNT(&allowed)
                              : static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  return static_cast<unsigned>(std::max(1.0, std::min(affinity, std::ceil(cgroup_cpus()))));
}

Environment collect_environment(BuildInfo build, std::vector<std::string> argv) {
  Environment environment;
  environment.build = std::move(build);
  environment.argv = std::move(argv);
  environment.cpu_model = read_field("/proc/cpuinfo", "model name");
  utsname system{};
  if (::uname(&system) == 0) {
    environment.kernel = std::string(system.sysname) + " " + system.release + " " + system.machine;
  }
  environment.logical_cpus = static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  environment.usable_cpus = usable_cpus();
  std::istringstream memory(read_field("/proc/meminfo", "MemTotal"));
  std::uint64_t kibibytes = 0;
  if (memory >> kibibytes) environment.memory_total_bytes = 1024 * kibibytes;
  environment.date_utc = utc_now();
  return environment;
}

}  // namespace refit::report
