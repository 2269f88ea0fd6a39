// Which files a checkpoint's directory has.
#pragma once

#include <string_view>

namespace refit::checkpoint {

/// Whether a file of this name is one that a checkpoint's directory has: weights and their index,
/// configuration, tokenizer, code, texts and the pictures in them. What is not is neither copied by a
/// conversion nor deleted with a directory that is replaced.
[[nodiscard]] bool is_checkpoint_file(std::string_view name) noexcept;

}  // namespace refit::checkpoint
