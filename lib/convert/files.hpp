// Everything of a conversion's files that is not a tensor: where the result may go, and what lies beside it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "refit/checkpoint/checkpoint.hpp"
#include "refit/checkpoint/writer.hpp"
#include "refit/convert/convert.hpp"

namespace refit::convert {

/// Throws Error(input) for a destination that is the source or holds it, or that exists without leave to
/// replace it.
void check_destination(const checkpoint::Checkpoint& source, const Job& job);

/// What lies in the source's directory, in order of the names; nothing where the source is a file. Asked
/// before the result has its temporary name, which may be there too.
[[nodiscard]] std::vector<std::filesystem::directory_entry> list_files(const checkpoint::Checkpoint& source);

/// Of these, config.json as the result needs it, and the other files as they are. Adds to `notes` what is
/// left out.
void add_files(const std::vector<std::filesystem::directory_entry>& files, const Conversion& conversion,
               checkpoint::Writer& writer, std::vector<std::string>& notes);

}  // namespace refit::convert
