// A result of refit-bench as one page for a browser.
#pragma once

#include <string>
#include <string_view>

namespace refit::page {

/// One self-contained HTML document of `json`, a text of schema refit-bench/1 of any age, or refit-sweep/1:
/// it loads nothing and shows everything without a script. The text stands in it, in <script id="result"
/// type="application/json">, with <, > and & written as \u003c, \u003e and \u0026. Whatever the text's
/// strings hold, they are text in the page. Error(input) that names `file` and the key for anything else than
/// such a result.
[[nodiscard]] std::string to_html(std::string_view json, const std::string& file);

/// The page of the result in a file of at most 64 MiB.
[[nodiscard]] std::string file_to_html(const std::string& path);

}  // namespace refit::page
