// The schema blob: every section that any record of the file has; FORMAT.md#schema.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "atp/type_tag.h"
#include "base/bytes.h"

namespace atompack::atp {

struct Header;

struct SchemaEntry {
  Scope scope;
  uint8_t tag;
  std::string key;
  FieldType type;
  // Molecule-level sections other than strings, None and tensors all have this many payload bytes; absent where
  // there is no schema to say so (or per atom, where n_atoms decides).
  std::optional<uint32_t> slot_bytes;
};

struct Schema {
  bool is_stored = false;  // false: a file of release 0.2.x
  DType positions = DType::float32;
  std::vector<SchemaEntry> entries;  // sorted by (scope, key); unknown kinds and builtins are left out
};

// Decodes and checks the blob against the header it belongs to; an empty blob is a file without schema.
Schema decode_schema(Bytes blob, const Header& header);

}  // namespace atompack::atp
