// Naming the first key that is not the one expected: slow, and only on the way to an error.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "refit/plan/wire.hpp"

namespace refit::plan {

/// A sentence's middle that says why `got` cannot stand where entry `expected` (below the count of entries)
/// of the wire was due: duplicate, unexpected, reordered or missing key. `comes_later`: the expected key is
/// seen further on.
[[nodiscard]] std::string describe_wrong_key(const Wire& wire, std::size_t expected, std::string_view got,
                                             bool comes_later);

/// The same for a key that comes where none was due any more, before entry `next`.
[[nodiscard]] std::string describe_extra_key(const Wire& wire, std::size_t next, std::string_view got);

}  // namespace refit::plan
