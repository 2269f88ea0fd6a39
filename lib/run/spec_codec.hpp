// The part of a BenchSpec that the generator needs to compute the same plans, as CBOR.
#pragma once

#include <string>
#include <string_view>

#include "refit/run/bench.hpp"

namespace refit::run {

[[nodiscard]] std::string encode_spec(const BenchSpec& spec);
/// Error(input) when a field is missing, ill-typed, or the other side speaks another protocol or library
/// version.
[[nodiscard]] BenchSpec decode_spec(std::string_view text);

}  // namespace refit::run
