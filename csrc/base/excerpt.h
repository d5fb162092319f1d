// Excerpts of strings for error messages.
#pragma once

#include <string>
#include <string_view>

namespace atompack {

// Returns the first characters in single quotes on one line, with unprintable bytes as \xNN, so that no string breaks a
// message however long or unusual it is.
std::string excerpt(std::string_view text);

}  // namespace atompack
