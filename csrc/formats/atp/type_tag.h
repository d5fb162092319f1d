// The type tags of schema entries and sections, and where each is legal; FORMAT.md#type-tags.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/molecule_source.h"

namespace atompack::atp {

constexpr uint8_t kScopeCount = 3;  // kinds from here on are unknown, and not shown

enum class Form : uint8_t { scalar, text, array, vectors, flags, matrix, none, tensor };

// vectors: (k, 3); flags: three bytes; matrix: (3, 3); tensor: carries its own shape.
struct TagTraits {
  Form form;
  DType dtype;
  uint32_t element_bytes;  // the schema's number
};

constexpr int kTagCount = 18;
const TagTraits& traits_of(uint8_t tag);  // tag < kTagCount

// The type of a section, or nothing where this tag is not legal for this scope and key. A builtin name that is not
// one of the format's is reported by is_builtin().
std::optional<FieldType> field_type(Scope scope, std::string_view key, uint8_t tag);
bool is_builtin(std::string_view key);

// The tag with which a value is written; FORMAT.md#value-to-tag. Nothing where the format has none for it.
std::optional<uint8_t> tag_for(Scope scope, std::string_view key, const FieldType& type, const Shape& row_shape);

// In words, for errors: "float32 array".
std::string words_for(uint8_t tag);

// Record format 2 promises one width for each builtin; this is the other.
bool needs_format_3(Scope scope, uint8_t tag);

// The shape of one row in a payload of this many bytes, tensors aside. Nothing where the length does not fit: at
// level atom there are n_atoms rows, at level molecule there is one.
std::optional<Shape> row_shape(const TagTraits& traits, Level level, uint64_t payload_bytes, uint64_t n_atoms);

}  // namespace atompack::atp
