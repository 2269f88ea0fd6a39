// Every answer of CUDA is looked at: success, or an Error that says what was attempted.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <source_location>
#include <string_view>

namespace refit::cuda {

/// Error(runtime): what was attempted, CUDA's name and words for what happened, and the line of the call.
[[noreturn]] void fail(cudaError_t answer, std::string_view attempted, std::source_location where);
[[noreturn]] void fail(CUresult answer, std::string_view attempted, std::source_location where);

/// `attempted` reads on in "... failed": "copying descriptors to the GPU".
inline void check(cudaError_t answer, std::string_view attempted,
                  std::source_location where = std::source_location::current()) {
  if (answer != cudaSuccess) fail(answer, attempted, where);
}
inline void check(CUresult answer, std::string_view attempted,
                  std::source_location where = std::source_location::current()) {
  if (answer != CUDA_SUCCESS) fail(answer, attempted, where);
}

}  // namespace refit::cuda
