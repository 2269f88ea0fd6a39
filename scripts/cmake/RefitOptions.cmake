# Build options and the one interface target that carries the project's compile flags.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

option(REFIT_BUILD_TESTS "Build the tests" ON)
option(REFIT_BUILD_BENCHMARKS "Build the Google Benchmark programs" ON)
option(REFIT_WERROR "Treat warnings as errors" OFF)
# For a build from nothing, in half of the time. Who changes one file at a time waits less without.
option(REFIT_FAST_BUILD "Compile each module as one file, and the tests with a precompiled header" OFF)
if(REFIT_FAST_BUILD)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 0)
endif()
include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  set(cuda_default ON)
else()
  set(cuda_default OFF)
endif()
option(REFIT_CUDA "Build the GPU backend (default: when a CUDA compiler is found)" ${cuda_default})
find_package(MPI QUIET COMPONENTS CXX)
option(REFIT_MPI "Build what runs on several ranks (default: when MPI is found)" ${MPI_CXX_FOUND})
set(REFIT_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them (address,undefined or thread)")

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

add_library(refit_flags INTERFACE)
target_compile_features(refit_flags INTERFACE cxx_std_20)
target_compile_options(refit_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
                       $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
                       $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${REFIT_FAST_BUILD}>>:-Wno-subobject-linkage>
                       $<$<BOOL:${REFIT_WERROR}>:-Werror>)
if(REFIT_SANITIZE)
  target_compile_options(refit_flags INTERFACE -fsanitize=${REFIT_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(refit_flags INTERFACE -fsanitize=${REFIT_SANITIZE})
  target_compile_definitions(refit_flags INTERFACE REFIT_SANITIZED=1)
endif()
