// Text between the tags and in the quoted attributes of XML and HTML.
#pragma once

#include <string>
#include <string_view>

namespace refit {

/// `text` without a character that markup means something by; a line's end stays one in an attribute, too.
[[nodiscard]] std::string markup_escaped(std::string_view text);

}  // namespace refit
