// What the wire check was given, checked itself.
#pragma once

#include "refit/verify/verify.hpp"

namespace refit::verify {

/// Throws Error(input) unless there is one record for every entry.
void require_evidence(const plan::Wire& wire, const WireEvidence& evidence);

}  // namespace refit::verify
