// What CUDA says, in one sentence.
#include "cuda/check.hpp"

#include <fmt/format.h>

#include "cuda/driver.hpp"
#include "refit/base/error.hpp"

namespace refit::cuda {
namespace {

[[noreturn]] void fail_named(std::string_view attempted, const char* name, const char* words,
                             const std::source_location& where) {
  const std::string_view path = where.file_name();
  fail_runtime(fmt::format("{} failed: {} ({}) at {}:{}", attempted, name, words,
                           path.substr(path.rfind('/') + 1), where.line()));
}

}  // namespace

void fail(cudaError_t answer, std::string_view attempted, std::source_location where) {
  (void)cudaGetLastError();  // said now, and not once more by the next launch
  fail_named(attempted, cudaGetErrorName(answer), cudaGetErrorString(answer), where);
}

void fail(CUresult answer, std::string_view attempted, std::source_location where) {
  const char* name = nullptr;
  const char* words = nullptr;
  driver().error_name(answer, &name);
  driver().error_string(answer, &words);
  fail_named(attempted, name != nullptr ? name : "an unknown error", words != nullptr ? words : "no words",
             where);
}

}  // namespace refit::cuda
