// What a fuzzer calls a failure.
#pragma once

#include <cstdlib>

#include "refit/base/error.hpp"

inline void require(bool holds) {
  if (!holds) std::abort();
}

/// Whether `call` reads its input. It may refuse it as input; every other exception gets through.
template <typename Call>
bool reads(Call&& call) {
  try {
    call();
    return true;
  } catch (const refit::Error& error) {
    require(error.kind() == refit::ErrorKind::input);
    require(error.what()[0] != '\0');
    return false;
  }
}
