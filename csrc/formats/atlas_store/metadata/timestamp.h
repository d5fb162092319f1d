// Moments as attributes have them: RFC 3339, exact to the nanosecond.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/array_file/layer/footer.h"

namespace atompack::atlas_store {

using array_file::Timestamp;

// Nothing unless the whole text is a moment between the years 1677 and 2262 that fits (FORMAT.md, "Timestamps").
std::optional<Timestamp> parse_timestamp(std::string_view text);

// In UTC, with 0, 3, 6 or 9 digits of a second, the fewest that are exact.
std::string format_timestamp(Timestamp moment);

}  // namespace atompack::atlas_store
