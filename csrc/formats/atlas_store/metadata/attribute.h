// Attributes of datasets: bool, int64, float64, texts and moments.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "formats/atlas_store/metadata/timestamp.h"

namespace atompack::atlas_store {

// A moment, and the text that it was read from, which is kept: empty for canonical ones.
struct Moment {
  Timestamp at;
  std::string_view text;
};

// Texts are views: of what they were made from, or of the metadata that they stand in.
using AttributeValue = std::variant<bool, int64_t, double, std::string_view, Moment>;

struct Attribute {
  std::string_view key;
  AttributeValue value;
};

}  // namespace atompack::atlas_store
