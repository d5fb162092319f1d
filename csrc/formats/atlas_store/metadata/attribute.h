// Attributes of datasets: bool, int64, float64, strings and timestamps.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "formats/atlas_store/metadata/timestamp.h"

namespace atompack::atlas_store {

// A timestamp with its original spelling, which is kept; empty if canonical.
struct TimestampValue {
  Timestamp at;
  std::string_view text;
};

// Strings are views of the caller's data or of the metadata.
using AttributeValue = std::variant<bool, int64_t, double, std::string_view, TimestampValue>;

struct Attribute {
  std::string_view key;
  AttributeValue value;
};

}  // namespace atompack::atlas_store
