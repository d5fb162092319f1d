// Schema blob: every section that any record of the file has; FORMAT.md#schema.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "io/byte_source.h"
#include "model/molecule_source.h"

namespace atompack::atp {

// Type tags of schema entries and sections, and where each is valid; FORMAT.md#type-tags.
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

// Returns the type of a section, or nullopt if this tag is not valid for this scope and key. is_builtin() distinguishes
// unknown builtin names from invalid tags.
std::optional<FieldType> field_type(Scope scope, std::string_view key, uint8_t tag);
bool is_builtin(std::string_view key);

// The scope of the sections of a field: some labels are stored as properties.
Scope stored_scope(Scope scope, std::string_view key);
// The scope of the field of a section, with the shape of its rows if known.
Scope field_scope(Scope stored, std::string_view key, const FieldType& type, const std::optional<Shape>& row_shape);

// Returns the tag with which a value is written (FORMAT.md#value-to-tag); nullopt if the format has none for it.
std::optional<uint8_t> tag_for(Scope scope, std::string_view key, const FieldType& type, const Shape& row_shape);

// Description for errors: "float32 array".
std::string words_for(uint8_t tag);

// True if a builtin field is not stored in the one width that record format 2 allows.
bool needs_format_3(Scope scope, uint8_t tag);

// Returns the shape of one row in a payload of this many bytes, except for tensors; nullopt if the length is invalid.
// There are n_atoms rows at level atom and one at level molecule.
std::optional<Shape> row_shape(const TagTraits& traits, Level level, uint64_t payload_bytes, uint64_t n_atoms);

inline constexpr size_t kMaxKeyBytes = 255;  // the length of a section's key is one byte

struct Header;

struct SchemaEntry {
  Scope scope;  // as stored
  uint8_t tag;
  std::string key;
  FieldType type;
  // Size of a molecule-level payload other than strings, None and tensors; nullopt without a schema (or per atom, where
  // n_atoms decides).
  std::optional<uint32_t> slot_bytes;
};

// An entry as stored in the blob.
struct RawSchemaEntry {
  uint8_t kind, tag, per_atom;
  uint32_t element_bytes, slot_bytes;
  std::string key;
};

struct Schema {
  bool is_stored = false;  // false: a file of release 0.2.x
  DType positions = DType::float32;
  std::vector<SchemaEntry> entries;    // sorted by (scope, key)
  std::vector<RawSchemaEntry> hidden;  // unknown kinds and builtin fields: preserved when the schema is rewritten
};

// Decodes the blob and checks it against its header; an empty blob means a file without schema.
Schema decode_schema(Bytes blob, const Header& header);

// Reads the schema of a file. Throws UnsupportedFormatError for a schema of more than 64 MiB.
Schema read_schema(const io::ByteSource& file, const Header& header);

std::vector<std::byte> encode_schema(const Schema& schema);

// Schema entry for records with a section like this. `type` and `row_shape` are those of a value; `tag` is valid for
// them.
SchemaEntry entry_for(Scope scope, std::string_view key, uint8_t tag, const FieldType& type, const Shape& row_shape);

// Sections that records add to a schema. All sections with the same scope and key must have the same type and shape:
// the flat reads of the original rely on it.
class SchemaUnion {
 public:
  explicit SchemaUnion(const Schema& base) : base_(base) {}

  // Throws FieldError, naming the key and both types, if the key has a different type or shape already.
  void add(const SchemaEntry& entry);

  const std::vector<SchemaEntry>& added() const { return added_; }
  Schema merged_schema() const;

 private:
  const Schema& base_;
  std::vector<SchemaEntry> added_;  // sorted by (scope, key)
};

}  // namespace atompack::atp
