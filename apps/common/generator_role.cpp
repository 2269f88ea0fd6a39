// A generator is this program with one hidden option.
#include "common/generator_role.hpp"

#include <fmt/format.h>

#include "common/backends.hpp"
#include "refit/base/error.hpp"
#include "refit/transport/child_process.hpp"

namespace refit::apps {
namespace {

constexpr const char* kOption = "--generator-role";
/// The descriptor on which a spawned generator finds its socket.
constexpr int kGeneratorSocket = 3;

}  // namespace

void add_generator_role(CLI::App& app, bool& wanted) {
  app.add_flag(kOption, wanted)->group("");  // an empty group hides it from --help
}

int run_generator_role() {
  try {
    run::run_generator(kGeneratorSocket, make_backend);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("generator: {}", error.what()));
  }
  return 0;
}

void start_generators_as_this_program(run::BenchSpec& spec) {
  spec.generator_program = transport::own_executable();
  spec.generator_arguments = {kOption};
}

}  // namespace refit::apps
