// Everything of a conversion's files that is not a tensor: where the result may go, and what lies beside it.
#pragma once

#include <string>
#include <vector>

#include "refit/checkpoint/checkpoint.hpp"
#include "refit/checkpoint/writer.hpp"
#include "refit/convert/convert.hpp"

namespace refit::convert {

/// Throws Error(input) for a destination that is the source or holds it, or that exists without leave to
/// replace it.
void check_destination(const checkpoint::Checkpoint& source, const Job& job);

/// config.json as the result needs it, and the other files of the source's directory as they are. Adds to
/// `notes` what is left out.
void add_files(const checkpoint::Checkpoint& source, const Conversion& conversion, checkpoint::Writer& writer,
               std::vector<std::string>& notes);

}  // namespace refit::convert
