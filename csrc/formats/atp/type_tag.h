// Type tags of schema entries and sections, and where each is valid; FORMAT.md#type-tags.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/molecule_source.h"

namespace atompack::atp {

constexpr uint8_t kScopeCount = 3;  // larger kinds are unknown and not returned by readers

enum class Form : uint8_t { scalar, text, array, vectors, flags, matrix, none, tensor };

// vectors: (k, 3); flags: three bytes; matrix: (3, 3); tensor: carries its own shape.
struct TagTraits {
  Form form;
  DType dtype;
  uint32_t element_bytes;  // number in the schema
};

constexpr int kTagCount = 18;
const TagTraits& traits_of(uint8_t tag);  // tag < kTagCount

// Returns the type of a section, or nullopt if this tag is not valid for this scope and key. is_builtin() tells unknown
// builtin names from invalid tags.
std::optional<FieldType> field_type(Scope scope, std::string_view key, uint8_t tag);
bool is_builtin(std::string_view key);

// Returns the tag with which a value is written (FORMAT.md#value-to-tag); nullopt if the format has none for it.
std::optional<uint8_t> tag_for(Scope scope, std::string_view key, const FieldType& type, const Shape& row_shape);

// Description for errors: "float32 array".
std::string words_for(uint8_t tag);

// True if a builtin field is not stored in the one width that record format 2 allows.
bool needs_format_3(Scope scope, uint8_t tag);

// Returns the shape of one row in a payload of this many bytes, except for tensors; nullopt if the length is invalid.
// There are n_atoms rows at level atom and one at level molecule.
std::optional<Shape> row_shape(const TagTraits& traits, Level level, uint64_t payload_bytes, uint64_t n_atoms);

}  // namespace atompack::atp
