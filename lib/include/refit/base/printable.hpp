// Text from outside in messages: names that cannot move the cursor, break a line or turn its direction.
#pragma once

#include <string>
#include <string_view>

namespace refit {

/// `text` with these characters written out: control characters ("\n", "\x1b", "\u009b"), marks of line and
/// direction ("\u202e"), what Unicode calls no character ("\uffff"), and bytes that are not UTF-8 ("\xff").
/// Everything else, a backslash too, stays. The result is one line of UTF-8 that XML 1.0 can hold.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace refit
