// The names that model repositories use.
#include "checkpoint/file_names.hpp"

#include <algorithm>
#include <array>

namespace refit::checkpoint {

bool is_checkpoint_file(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 20> suffixes = {
      ".safetensors", ".json", ".jsonl", ".txt",  ".model", ".tiktoken", ".vocab", ".bpe",  ".jinja", ".py",
      ".md",          ".rst",  ".pdf",   ".yaml", ".yml",   ".png",      ".jpg",   ".jpeg", ".gif",   ".svg"};
  constexpr std::array<std::string_view, 5> beginnings = {"LICENSE", "LICENCE", "NOTICE", "README",
                                                          "USE_POLICY"};
  constexpr std::array<std::string_view, 2> whole = {".gitattributes", ".gitignore"};
  const auto any = [](const auto& list, const auto& matches) {
    return std::any_of(list.begin(), list.end(), matches);
  };
  return any(suffixes,
             [&](std::string_view one) { return name.ends_with(one) && name.size() > one.size(); }) ||
         any(beginnings, [&](std::string_view one) { return name.starts_with(one); }) ||
         any(whole, [&](std::string_view one) { return name == one; });
}

}  // namespace refit::checkpoint
