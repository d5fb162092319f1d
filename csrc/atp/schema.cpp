#include "atp/schema.h"

#include <algorithm>
#include <tuple>

#include "atp/header.h"
#include "base/utf8.h"

namespace atompack::atp {
namespace {

constexpr uint8_t kUnknownPositions = 255;
constexpr size_t kLongestKey = 255;  // of a section: its length takes one byte

bool fixed_by_tag(Form form) { return form == Form::scalar || form == Form::flags || form == Form::matrix; }

void check_slot(const TagTraits& traits, uint32_t slot_bytes) {
  const bool sized_elsewhere = traits.form == Form::text || traits.form == Form::none || traits.form == Form::tensor;
  const bool possible = sized_elsewhere             ? slot_bytes == 0
                        : fixed_by_tag(traits.form) ? slot_bytes == traits.element_bytes
                                                    : slot_bytes % traits.element_bytes == 0;
  if (!possible) throw CorruptFileError(cat("schema slot bytes: ", slot_bytes, " are impossible for this type tag"));
}

// The fields in front of the key, in file order.
struct RawEntry {
  uint8_t kind, tag, per_atom;
  uint32_t element_bytes, slot_bytes;
  std::string key;
};

RawEntry read_entry(ByteCursor& cursor) {
  const uint64_t start = cursor.position();
  RawEntry raw{};
  raw.kind = cursor.read_le<uint8_t>("schema kind");
  raw.tag = cursor.read_le<uint8_t>("schema type tag");
  raw.per_atom = cursor.read_le<uint8_t>("schema per-atom flag");
  const auto key_length = cursor.read_le<uint16_t>("schema key length");
  raw.element_bytes = cursor.read_le<uint32_t>("schema element bytes");
  raw.slot_bytes = cursor.read_le<uint32_t>("schema slot bytes");
  const Bytes key = cursor.take(key_length, "schema key");
  if (!is_utf8(key)) throw CorruptFileError("schema key: not UTF-8", start);
  raw.key = as_text(key);
  return raw;
}

// Nothing for sections that no reader shows: unknown kinds, unknown builtins, keys that no section can hold.
std::optional<SchemaEntry> checked(RawEntry raw) {
  if (raw.per_atom > 1) throw CorruptFileError(cat("schema per-atom flag: expected 0 or 1, got ", int{raw.per_atom}));
  if (raw.tag >= kTagCount) throw CorruptFileError(cat("schema type tag: expected 0 to 17, got ", int{raw.tag}));
  const TagTraits& traits = traits_of(raw.tag);
  if (raw.element_bytes != traits.element_bytes) {
    throw CorruptFileError(cat("schema element bytes: expected ", traits.element_bytes, ", got ", raw.element_bytes));
  }
  check_slot(traits, raw.slot_bytes);
  if (raw.kind >= kScopeCount || raw.key.size() > kLongestKey) return std::nullopt;
  const auto scope = static_cast<Scope>(raw.kind);
  if (scope == Scope::builtin && !is_builtin(raw.key)) return std::nullopt;
  const std::optional<FieldType> type = field_type(scope, raw.key, raw.tag);
  if (!type) throw CorruptFileError(cat("schema type tag: ", int{raw.tag}, " is not legal here"));
  if ((type->level == Level::atom) != (raw.per_atom == 1)) {
    throw CorruptFileError(
        cat("schema per-atom flag: expected ", type->level == Level::atom, ", got ", int{raw.per_atom}));
  }
  const bool sized = type->level == Level::molecule && type->kind == ValueKind::numeric && traits.form != Form::tensor;
  return SchemaEntry{scope, raw.tag, std::move(raw.key), *type, sized ? std::optional(raw.slot_bytes) : std::nullopt};
}

DType positions_type(uint8_t tag, const Header& header) {
  if (tag != 4 && tag != 7 && tag != kUnknownPositions) {
    throw CorruptFileError(cat("schema positions type: expected 4, 7 or 255, got ", int{tag}), 4);
  }
  if (header.record_format == 2) return DType::float32;
  if (tag == kUnknownPositions && header.n_molecules > 0) {
    throw CorruptFileError("schema positions type: records of format 3 need one, got 255", 4);
  }
  return tag == 7 ? DType::float64 : DType::float32;
}

void sort_and_check_unique(std::vector<SchemaEntry>& entries) {
  const auto place = [](const SchemaEntry& entry) { return std::tie(entry.scope, entry.key); };
  std::ranges::sort(entries, {}, place);
  const auto twice = std::ranges::adjacent_find(entries, {}, place);
  if (twice != entries.end()) throw CorruptFileError("schema: the same key stands there twice").at_field(twice->key);
}

Schema decode_entries(Bytes blob, const Header& header) {
  ByteCursor cursor(blob);
  Schema schema;
  schema.is_stored = true;
  const auto version = cursor.read_le<uint32_t>("schema version");
  if (version != 1) throw UnsupportedFormatError(cat("schema version: expected 1, got ", version), 0);
  schema.positions = positions_type(cursor.read_le<uint8_t>("schema positions type"), header);
  const auto count = cursor.read_le<uint32_t>("schema entry count");
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t start = cursor.position();
    RawEntry raw = read_entry(cursor);
    const std::string key = raw.key;
    try {
      if (auto entry = checked(std::move(raw))) schema.entries.push_back(std::move(*entry));
    } catch (DataError& error) {
      error.at_field(key).at_offset(start);
      throw;
    }
  }
  if (cursor.remaining() > 0) {
    throw CorruptFileError(cat("schema: ", cursor.remaining(), " bytes after the last entry"), cursor.position());
  }
  sort_and_check_unique(schema.entries);
  return schema;
}

}  // namespace

Schema decode_schema(Bytes blob, const Header& header) {
  if (header.schema_length == 0) {
    if (header.record_format == 3 && header.n_molecules > 0) {
      throw CorruptFileError("schema: records of format 3 need one to tell the type of positions, got none");
    }
    return {};
  }
  try {
    return decode_entries(blob, header);
  } catch (DataError& error) {
    error.shift_offset(header.schema_offset);
    throw;
  }
}

}  // namespace atompack::atp
