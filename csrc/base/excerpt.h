// Excerpts of strings for messages.
#pragma once

#include <string>
#include <string_view>

namespace atompack {

// The first characters in single quotes, on one line: what cannot be shown as \xNN. So that no text, however long or
// odd, makes an odd message.
std::string excerpt(std::string_view text);

}  // namespace atompack
