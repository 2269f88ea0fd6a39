# Shared by the scripts: install what is missing once, build once. Sourced, never run.
# Everything said here goes to standard error; standard output belongs to the program that is run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# program or header -> Debian package
needed_programs="cmake:cmake ninja:ninja-build g++:g++ python3:python3"
needed_headers="CLI/CLI.hpp:libcli11-dev nlohmann/json.hpp:nlohmann-json3-dev fmt/core.h:libfmt-dev
  catch2:catch2 benchmark/benchmark.h:libbenchmark-dev hwy/highway.h:libhwy-dev"

say() { printf '%s\n' "$*" >&2; }

missing_packages() {
  local pair name
  for pair in $needed_programs; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || printf '%s ' "${pair##*:}"
  done
  for pair in $needed_headers; do
    name=${pair%%:*}
    for prefix in /usr/include /usr/local/include ${CMAKE_PREFIX_PATH:+${CMAKE_PREFIX_PATH//:/ }}; do
      [ -e "$prefix/$name" ] || [ -e "$prefix/include/$name" ] && continue 2
    done
    printf '%s ' "${pair##*:}"
  done
  /usr/bin/python3 -c 'import jsonschema' >/dev/null 2>&1 || python3 -c 'import jsonschema' >/dev/null 2>&1 ||
    printf 'python3-jsonschema '
}

# A clang that links libFuzzer; Debian 12: clang and libclang-rt-14-dev.
fuzz_compiler() {
  local candidate
  for candidate in clang++ clang++-{19,18,17,16,15,14}; do
    if echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
        "$candidate" -fsanitize=fuzzer,address -x c++ - -o /dev/null 2>/dev/null; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

# Installs packages that are missing, and those that are named, or says exactly which and stops.
setup() {
  local packages as_root=
  packages="$(missing_packages)$*"
  [ -z "$packages" ] && return 0
  if ! command -v apt-get >/dev/null 2>&1; then
    say "refit needs packages that are not here. On Debian or Ubuntu they are: $packages"
    say "Install the same from your system's package manager (CMake >= 3.22, g++ >= 11 or clang >= 14), then try again."
    exit 2
  fi
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
      say "refit needs packages that are not here and this user cannot install them. As root, run:"
      say "  apt-get update && apt-get install -y $packages"
      exit 2
    fi
    as_root=sudo
  fi
  say "Installing: $packages"
  if ! { $as_root apt-get update && DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y $packages; } >&2; then
    say "Installing failed. As root, run: apt-get update && apt-get install -y $packages"
    exit 3
  fi
}

# build PRESET TARGET: configures build/PRESET and builds TARGET there (apps, or all for tests and benchmarks too).
build() {
  local preset=$1 target=$2 stamp
  stamp="$root/build/$preset/.built-$target"
  # A finished build of unchanged sources starts at once, and asks no package manager.
  if [ -e "$stamp" ] && [ -z "$(find "$root"/{CMakeLists.txt,CMakePresets.json,apps,kernels,lib,scripts/cmake,tests} \
      -newer "$stamp" -print -quit 2>/dev/null)" ]; then
    return 0
  fi
  setup
  (cd "$root" && cmake --preset "$preset" && cmake --build --preset "$preset" --target "$target") >&2 ||
    { say "The build failed; the messages above say where."; exit 3; }
  touch "$stamp"
}
