#include "formats/atp/schema.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

#include "base/utf8.h"
#include "formats/atp/header.h"
#include "model/fields.h"
#include "model/property_types.h"

namespace atompack::atp {
namespace {

constexpr std::array<TagTraits, kTagCount> kTraits{{
    {Form::scalar, DType::float64, 8},    //  0
    {Form::scalar, DType::int64, 8},      //  1
    {Form::text, DType::uint8, 0},        //  2
    {Form::array, DType::float64, 8},     //  3
    {Form::vectors, DType::float32, 12},  //  4
    {Form::array, DType::int64, 8},       //  5
    {Form::array, DType::float32, 4},     //  6
    {Form::vectors, DType::float64, 24},  //  7
    {Form::array, DType::int32, 4},       //  8
    {Form::flags, DType::boolean, 3},     //  9
    {Form::matrix, DType::float64, 72},   // 10
    {Form::scalar, DType::float32, 4},    // 11
    {Form::matrix, DType::float32, 36},   // 12
    {Form::none, DType::uint8, 0},        // 13
    {Form::tensor, DType::float32, 4},    // 14
    {Form::tensor, DType::float64, 8},    // 15
    {Form::tensor, DType::int32, 4},      // 16
    {Form::tensor, DType::int64, 8},      // 17
}};

// Form in which a builtin field is stored.
constexpr Form form_of(const BuiltinField& field) {
  if (field.kind == ValueKind::string) return Form::text;
  if (field.dtype == DType::boolean) return Form::flags;
  if (field.row.rank == 2) return Form::matrix;
  if (field.level == Level::molecule) return Form::scalar;
  return field.row.rank == 0 ? Form::array : Form::vectors;
}

// True if a builtin field may be stored with this tag: floats in both widths.
constexpr bool is_legal_for(const BuiltinField& field, const TagTraits& traits) {
  return traits.form == form_of(field) && (traits.dtype == field.dtype || is_floating(field.dtype)) &&
         is_floating(traits.dtype) == is_floating(field.dtype);
}

// Builtin fields that have sections of their own.
const BuiltinField* find_section(std::string_view key) {
  const BuiltinField* const field = find_builtin(key);
  return field != nullptr && field->storage == Storage::section ? field : nullptr;
}

FieldType typed(Level level, const TagTraits& traits) {
  const ValueKind kind = traits.form == Form::text   ? ValueKind::string
                         : traits.form == Form::none ? ValueKind::none
                                                     : ValueKind::numeric;
  return {level, kind, traits.dtype};
}

bool legal_for_property(Scope scope, Form form) {
  switch (form) {
    case Form::array:
    case Form::vectors:
    case Form::tensor:
      return true;
    case Form::scalar:
    case Form::text:
    case Form::none:
      return scope == Scope::molecule_property;
    case Form::flags:
    case Form::matrix:
      return false;
  }
  return false;
}

Form property_form(const FieldType& type, const Shape& row_shape) {
  if (type.kind == ValueKind::none) return Form::none;
  if (type.kind == ValueKind::string) return Form::text;
  if (has_own_shape(row_shape.dims(), type.level, type.dtype)) return Form::tensor;
  const int rank = row_shape.rank() + (type.level == Level::atom ? 1 : 0);
  return rank == 0 ? Form::scalar : rank == 1 ? Form::array : Form::vectors;
}

// The first tag of this form and element type.
std::optional<uint8_t> property_tag(Form form, DType dtype) {
  const auto found = std::ranges::find_if(
      kTraits, [&](const TagTraits& traits) { return traits.form == form && traits.dtype == dtype; });
  if (found == kTraits.end()) return std::nullopt;
  return static_cast<uint8_t>(found - kTraits.begin());
}

std::optional<uint8_t> builtin_tag(std::string_view key, const FieldType& type, const Shape& row_shape) {
  const BuiltinField* const builtin = find_section(key);
  if (builtin == nullptr) return std::nullopt;
  for (uint8_t tag = 0; tag < kTagCount; ++tag) {
    const TagTraits& traits = kTraits[tag];
    if (!is_legal_for(*builtin, traits) || typed(builtin->level, traits) != type) continue;
    if (atp::row_shape(traits, builtin->level, traits.element_bytes, 1) == row_shape) return tag;
  }
  return std::nullopt;
}

}  // namespace

const TagTraits& traits_of(uint8_t tag) { return kTraits[tag]; }

bool is_builtin(std::string_view key) { return find_section(key) != nullptr; }

Scope stored_scope(Scope scope, std::string_view key) {
  if (scope != Scope::builtin) return scope;
  const BuiltinField* const label = find_builtin(key);
  if (label == nullptr || label->storage == Storage::section) return scope;
  return label->level == Level::atom ? Scope::atom_property : Scope::molecule_property;
}

Scope field_scope(Scope stored, std::string_view key, const FieldType& type, const std::optional<Shape>& row_shape) {
  if (stored_scope(Scope::builtin, key) != stored || !row_shape) return stored;
  const BuiltinField* const label = find_builtin(key);
  return label != nullptr && is_value_of(*label, type, row_shape->dims()) ? Scope::builtin : stored;
}

std::optional<FieldType> field_type(Scope scope, std::string_view key, uint8_t tag) {
  if (tag >= kTagCount) return std::nullopt;
  if (scope == Scope::builtin) {
    const BuiltinField* builtin = find_section(key);
    if (builtin == nullptr || !is_legal_for(*builtin, kTraits[tag])) return std::nullopt;
    return typed(builtin->level, kTraits[tag]);
  }
  constexpr uint8_t kFloat32Scalar = 11;  // of the energy only
  if (tag == kFloat32Scalar || !legal_for_property(scope, kTraits[tag].form)) return std::nullopt;
  return typed(scope == Scope::atom_property ? Level::atom : Level::molecule, kTraits[tag]);
}

std::optional<uint8_t> tag_for(Scope scope, std::string_view key, const FieldType& type, const Shape& row_shape) {
  const Scope stored = stored_scope(scope, key);
  if (stored == Scope::builtin) return builtin_tag(key, type, row_shape);
  if (scope == Scope::builtin && field_scope(stored, key, type, row_shape) != scope) return std::nullopt;
  const std::optional<uint8_t> tag = property_tag(property_form(type, row_shape), type.dtype);
  return tag && field_type(stored, key, *tag) ? tag : std::nullopt;
}

std::string words_for(uint8_t tag) {
  const TagTraits& traits = kTraits[tag];
  switch (traits.form) {
    case Form::scalar:
      return cat(name_of(traits.dtype), " number");
    case Form::text:
      return "text";
    case Form::array:
      return cat(name_of(traits.dtype), " array");
    case Form::vectors:
      return cat(name_of(traits.dtype), " array of (k, 3)");
    case Form::flags:
      return "three bools";
    case Form::matrix:
      return cat(name_of(traits.dtype), " array of (3, 3)");
    case Form::none:
      return "None";
    case Form::tensor:
      return cat(name_of(traits.dtype), " tensor");
  }
  return "?";
}

bool needs_format_3(Scope scope, uint8_t tag) {
  constexpr std::array<uint8_t, 4> kOtherWidths{6, 7, 11, 12};
  return scope == Scope::builtin && std::ranges::find(kOtherWidths, tag) != kOtherWidths.end();
}

std::optional<Shape> row_shape(const TagTraits& traits, Level level, uint64_t payload_bytes, uint64_t n_atoms) {
  switch (traits.form) {
    case Form::text:
      return Shape{};
    case Form::scalar:
    case Form::none:
      return payload_bytes == traits.element_bytes ? std::optional(Shape{}) : std::nullopt;
    case Form::flags:
      return payload_bytes == traits.element_bytes ? std::optional(Shape{3}) : std::nullopt;
    case Form::matrix:
      return payload_bytes == traits.element_bytes ? std::optional(Shape{3, 3}) : std::nullopt;
    case Form::array:
    case Form::vectors: {
      const bool vectors = traits.form == Form::vectors;
      if (payload_bytes % traits.element_bytes != 0) return std::nullopt;
      const uint64_t k = payload_bytes / traits.element_bytes;
      if (level == Level::molecule) return vectors ? Shape{static_cast<int64_t>(k), 3} : Shape{static_cast<int64_t>(k)};
      if (k != n_atoms) return std::nullopt;
      return vectors ? Shape{3} : Shape{};
    }
    case Form::tensor:
      break;  // read from the payload, not from its length
  }
  return std::nullopt;
}

namespace {

constexpr uint8_t kUnknownPositions = 255;

bool fixed_by_tag(Form form) { return form == Form::scalar || form == Form::flags || form == Form::matrix; }

void check_slot(const TagTraits& traits, uint32_t slot_bytes) {
  const bool sized_elsewhere = traits.form == Form::text || traits.form == Form::none || traits.form == Form::tensor;
  const bool possible = sized_elsewhere             ? slot_bytes == 0
                        : fixed_by_tag(traits.form) ? slot_bytes == traits.element_bytes
                                                    : slot_bytes % traits.element_bytes == 0;
  if (!possible) throw_corrupt("schema slot bytes: ", slot_bytes, " is invalid for this type tag");
}

RawSchemaEntry read_entry(ByteCursor& cursor) {
  const uint64_t start = cursor.position();
  RawSchemaEntry raw{};
  raw.kind = cursor.read_le<uint8_t>("schema kind");
  raw.tag = cursor.read_le<uint8_t>("schema type tag");
  raw.per_atom = cursor.read_le<uint8_t>("schema per-atom flag");
  const auto key_length = cursor.read_le<uint16_t>("schema key length");
  raw.element_bytes = cursor.read_le<uint32_t>("schema element bytes");
  raw.slot_bytes = cursor.read_le<uint32_t>("schema slot bytes");
  const Bytes key = cursor.take(key_length, "schema key");
  if (!is_utf8(key)) throw CorruptFileError("schema key: expected UTF-8, got other bytes", start);
  raw.key = as_text(key);
  return raw;
}

// True if all sections have the same number of payload bytes, given by the schema.
bool has_slot(const FieldType& type, uint8_t tag) {
  return type.level == Level::molecule && type.kind == ValueKind::numeric && traits_of(tag).form != Form::tensor;
}

// Sections of unknown kinds, unknown builtin fields and impossible keys are not returned by readers.
bool is_visible(const RawSchemaEntry& raw) {
  if (raw.kind >= kScopeCount || raw.key.size() > kMaxKeyBytes) return false;
  return static_cast<Scope>(raw.kind) != Scope::builtin || is_builtin(raw.key);
}

void check_form(const RawSchemaEntry& raw) {
  if (raw.per_atom > 1) throw_corrupt("schema per-atom flag: expected 0 or 1, got ", int{raw.per_atom});
  if (raw.tag >= kTagCount) throw_corrupt("schema type tag: expected 0 to 17, got ", int{raw.tag});
  const TagTraits& traits = traits_of(raw.tag);
  if (raw.element_bytes != traits.element_bytes) {
    throw_corrupt("schema element bytes: expected ", traits.element_bytes, ", got ", raw.element_bytes);
  }
  check_slot(traits, raw.slot_bytes);
}

SchemaEntry checked(RawSchemaEntry raw) {
  const auto scope = static_cast<Scope>(raw.kind);
  const std::optional<FieldType> type = field_type(scope, raw.key, raw.tag);
  if (!type) throw_corrupt("schema type tag: ", int{raw.tag}, " is invalid here");
  if ((type->level == Level::atom) != (raw.per_atom == 1)) {
    throw CorruptFileError(
        cat("schema per-atom flag: expected ", type->level == Level::atom, ", got ", int{raw.per_atom}));
  }
  const std::optional<uint32_t> slot = has_slot(*type, raw.tag) ? std::optional(raw.slot_bytes) : std::nullopt;
  return {scope, raw.tag, std::move(raw.key), *type, slot};
}

DType positions_type(uint8_t tag, const Header& header) {
  if (tag != 4 && tag != 7 && tag != kUnknownPositions) {
    throw CorruptFileError(cat("schema positions type: expected 4, 7 or 255, got ", int{tag}), 4);
  }
  if (header.record_format == 2) return DType::float32;
  if (tag == kUnknownPositions && header.n_molecules > 0) {
    throw CorruptFileError("schema positions type: expected 4 or 7 in record format 3, got 255", 4);
  }
  return tag == 7 ? DType::float64 : DType::float32;
}

auto place(const SchemaEntry& entry) { return std::tie(entry.scope, entry.key); }

void sort_and_check_unique(std::vector<SchemaEntry>& entries) {
  std::ranges::sort(entries, {}, place);
  const auto twice = std::ranges::adjacent_find(entries, {}, place);
  if (twice != entries.end()) throw CorruptFileError("schema: duplicate key").at_field(twice->key);
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
    RawSchemaEntry raw = read_entry(cursor);
    const std::string key = raw.key;
    const auto add_place = [&](DataError& error) { error.at_field(key).at_offset(start); };
    with_context(add_place, [&] {
      check_form(raw);
      if (is_visible(raw)) {
        schema.entries.push_back(checked(std::move(raw)));
      } else {
        schema.hidden.push_back(std::move(raw));
      }
    });
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
      throw CorruptFileError("schema: expected one that gives the type of positions in record format 3, got none");
    }
    return {};
  }
  return shift_offset(header.schema_offset, "", [&] { return decode_entries(blob, header); });
}

Schema read_schema(const io::ByteSource& file, const Header& header) {
  constexpr uint64_t kMax = uint64_t{64} << 20;  // a sparse file may claim any length
  io::RangeBuffer buffer;
  const Bytes stored = file.bytes(header.schema_offset, std::min(header.schema_length, kMax), buffer);
  Schema schema = decode_schema(stored, header);
  if (header.schema_length > kMax) {
    throw UnsupportedFormatError(cat("schema: expected at most ", kMax, " bytes, got ", header.schema_length),
                                 header.schema_offset);
  }
  return schema;
}

namespace {

RawSchemaEntry raw_of(const SchemaEntry& entry) {
  const TagTraits& traits = traits_of(entry.tag);
  const bool per_atom = entry.type.level == Level::atom;
  const uint32_t per_atom_slot = traits.form == Form::tensor ? 0 : traits.element_bytes;
  return {static_cast<uint8_t>(entry.scope),
          entry.tag,
          per_atom,
          traits.element_bytes,
          per_atom ? per_atom_slot : entry.slot_bytes.value_or(0),
          entry.key};
}

std::string words_for(const SchemaEntry& entry) {
  const TagTraits& traits = traits_of(entry.tag);
  const bool any_length = traits.form == Form::array || traits.form == Form::vectors;
  const char* const each = entry.type.level == Level::atom ? " for each atom" : "";
  if (!any_length || !entry.slot_bytes) return cat(atp::words_for(entry.tag), each);
  return cat(atp::words_for(entry.tag), " of length ", *entry.slot_bytes / traits.element_bytes);
}

}  // namespace

std::vector<std::byte> encode_schema(const Schema& schema) {
  std::vector<RawSchemaEntry> entries = schema.hidden;
  for (const SchemaEntry& entry : schema.entries) entries.push_back(raw_of(entry));
  std::ranges::sort(entries, {}, [](const RawSchemaEntry& raw) { return std::tie(raw.kind, raw.key); });
  std::vector<std::byte> blob;
  append_le(blob, uint32_t{1}, schema.positions == DType::float64 ? uint8_t{7} : uint8_t{4},
            static_cast<uint32_t>(entries.size()));
  for (const RawSchemaEntry& raw : entries) {
    append_le(blob, raw.kind, raw.tag, raw.per_atom, static_cast<uint16_t>(raw.key.size()), raw.element_bytes,
              raw.slot_bytes);
    append(blob, as_bytes(raw.key));
  }
  return blob;
}

SchemaEntry entry_for(Scope scope, std::string_view key, uint8_t tag, const FieldType& type, const Shape& row_shape) {
  SchemaEntry entry{scope, tag, std::string(key), type, std::nullopt};
  if (has_slot(type, tag)) {
    const uint64_t bytes = static_cast<uint64_t>(row_shape.numel()) * item_bytes(type.dtype);
    if (bytes > std::numeric_limits<uint32_t>::max())
      throw FieldError(cat("value: expected less than 4 GiB, got ", bytes, " bytes"));
    entry.slot_bytes = static_cast<uint32_t>(bytes);
  }
  return entry;
}

void SchemaUnion::add(const SchemaEntry& entry) {
  const auto find = [&](const std::vector<SchemaEntry>& entries) {
    return std::ranges::lower_bound(entries, place(entry), {}, place);
  };
  auto found = find(base_.entries);
  const bool in_base = found != base_.entries.end() && place(*found) == place(entry);
  if (!in_base) found = find(added_);
  if (!in_base && (found == added_.end() || place(*found) != place(entry))) {
    added_.insert(found, entry);
    return;
  }
  if (found->tag != entry.tag || found->slot_bytes != entry.slot_bytes) {
    throw FieldError(cat("type: expected ", words_for(*found), " as in earlier molecules, got ", words_for(entry)));
  }
}

Schema SchemaUnion::merged_schema() const {
  Schema schema = base_;
  schema.entries.insert(schema.entries.end(), added_.begin(), added_.end());
  std::ranges::sort(schema.entries, {}, place);
  return schema;
}

}  // namespace atompack::atp
