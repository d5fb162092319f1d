// Attributes of groups, as values without HDF5.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace atompack::torch_cache {

enum class AttributeKind : uint8_t { flag, integer, number, text };

using AttributeValue = std::variant<bool, int64_t, double, std::string>;

struct Attribute {
  std::string name;
  AttributeValue value;
};

// Attributes of one group, in the order of FORMAT.md; names unknown to the format are omitted.
using Attributes = std::vector<Attribute>;

struct AttributeName {
  std::string_view name;
  AttributeKind kind;
};

class Node;

// Reads those attributes of a group that exist. Throws CorruptFileError if one has a different type.
Attributes read_attributes(const Node& node, std::span<const AttributeName> names);

}  // namespace atompack::torch_cache
