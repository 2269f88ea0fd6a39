// The refit::Error that a call throws, so that a test can look at its kind and sentence.
#pragma once

#include <string>
#include <string_view>

#include "refit/base/error.hpp"
#include "support/catch.hpp"

template <typename Call>
refit::Error error_of(Call&& call) {
  try {
    call();
  } catch (const refit::Error& error) {
    return error;
  }
  FAIL("nothing was thrown");
  throw 0;  // FAIL does not return, which compilers cannot see
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

/// CHECKs that `call` throws Error(input) whose sentence has every part.
template <typename Call, typename... Parts>
void check_input_error(Call&& call, const Parts&... parts) {
  const refit::Error error = error_of(call);
  const std::string sentence = error.what();
  CAPTURE(sentence);
  CHECK(error.kind() == refit::ErrorKind::input);
  CHECK(!sentence.empty());
  CHECK(sentence.back() != '\n');
  for (const std::string_view part : {std::string_view(parts)...}) {
    CAPTURE(part);
    CHECK(contains(sentence, part));
  }
}
