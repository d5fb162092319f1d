// Timestamps in attributes: RFC 3339, exact to the nanosecond.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/array_file/layer/footer.h"

namespace atompack::atlas_store {

using array_file::Timestamp;

// Returns nullopt unless the whole string is a timestamp that fits, between the years 1677 and 2262 (FORMAT.md,
// "Timestamps").
std::optional<Timestamp> parse_timestamp(std::string_view text);

// In UTC, with 0, 3, 6 or 9 digits of a second, as few as are exact.
std::string format_timestamp(Timestamp moment);

}  // namespace atompack::atlas_store
