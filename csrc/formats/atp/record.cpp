#include "formats/atp/record.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/checked_math.h"
#include "base/utf8.h"

namespace atompack::atp {

std::string section_header(const SchemaEntry& entry) {
  std::string header;
  header += static_cast<char>(entry.scope);
  header += static_cast<char>(entry.key.size());
  header += entry.key;
  header += static_cast<char>(entry.tag);
  return header;
}

namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

// Row shape, if the schema determines it.
std::optional<Shape> declared_shape(const SchemaEntry& entry) {
  const TagTraits& traits = traits_of(entry.tag);
  if (traits.form == Form::tensor) return std::nullopt;
  if (entry.type.level == Level::atom) return row_shape(traits, Level::atom, traits.element_bytes, 1);
  if (entry.type.kind != ValueKind::numeric) return Shape{};
  if (!entry.slot_bytes) return std::nullopt;
  return row_shape(traits, Level::molecule, *entry.slot_bytes, 0);
}

// Rank, dimensions, values: FORMAT.md#type-tags.
Bytes read_tensor(FieldView& view, const TagTraits& traits, Bytes payload, uint64_t n_atoms) {
  ByteCursor cursor(payload);
  const auto rank = cursor.read_le<uint8_t>("tensor rank");
  if (rank > Shape::kMaxRank) throw_corrupt("tensor rank: expected at most ", Shape::kMaxRank, ", got ", int{rank});
  const bool per_atom = view.type.level == Level::atom;
  if (per_atom && rank == 0) throw CorruptFileError("tensor rank: expected at least 1 for values per atom, got 0");
  uint64_t max_bytes = traits.element_bytes;  // zero dimensions count as 1: no product of some of them may overflow
  bool empty = false;
  for (int i = 0; i < rank; ++i) {
    const auto dim = cursor.read_le<uint32_t>("tensor dimension");
    empty = empty || dim == 0;
    if (per_atom && i == 0) {
      if (dim != n_atoms) throw_corrupt("tensor rows: expected ", n_atoms, ", got ", dim);
    } else {
      view.row_shape.push_back(dim);
    }
    max_bytes = checked_mul(max_bytes, std::max(dim, 1U), "tensor size");
  }
  if (max_bytes > kMaxBytes) {
    throw_corrupt("tensor size: expected less than 4 GiB, got dimensions of ", max_bytes, " bytes");
  }
  const uint64_t bytes = empty ? 0 : max_bytes;
  if (cursor.remaining() != bytes) throw_corrupt("tensor values: expected ", bytes, " bytes, got ", cursor.remaining());
  return cursor.take(bytes, "tensor values");
}

// Sets the row shape; returns the values of a payload. Throws on errors.
Bytes read_value(FieldView& view, uint8_t tag, Bytes payload, uint64_t n_atoms) {
  const TagTraits& traits = traits_of(tag);
  if (traits.form == Form::tensor) return read_tensor(view, traits, payload, n_atoms);
  const std::optional<Shape> shape = row_shape(traits, view.type.level, payload.size(), n_atoms);
  if (!shape) {
    throw CorruptFileError(
        cat("payload length: ", payload.size(), " is invalid for type tag ", int{tag}, " and ", n_atoms, " atoms"));
  }
  if (traits.form == Form::text && !is_utf8(payload)) throw CorruptFileError("string: expected UTF-8, got other bytes");
  view.row_shape = *shape;
  return payload;
}

// Damage to a builtin field is an error of its molecule; damage to a property is passed on as a fault of that field.
// Offsets of errors count from the payload until here.
void report_fault(FieldView& view, CorruptFileError& error, uint64_t payload_at, MoleculeVisitor& visitor) {
  error.at_field(view.key).at_offset(0).shift_offset(payload_at);
  if (view.scope == Scope::builtin && is_builtin(view.key)) throw error;
  view.fault = &error;
  visitor.field(view, {});
}

}  // namespace

RawSection read_section(ByteCursor& cursor) {
  RawSection section{};
  section.start = cursor.position();
  section.kind = cursor.read_le<uint8_t>("section kind");
  const auto key_length = cursor.read_le<uint8_t>("section key length");
  const Bytes key = cursor.take(key_length, "section key");
  section.tag = cursor.read_le<uint8_t>("section type tag");
  const auto length = cursor.read_le<uint32_t>("payload length");
  section.payload_at = cursor.position();
  section.payload = cursor.take(length, "payload");
  if (!is_utf8(key)) throw CorruptFileError("section key: expected UTF-8, got other bytes", section.start);
  section.key = as_text(key);
  return section;
}

bool is_visible(const RawSection& section) {
  return section.kind < kScopeCount && (section.kind != 0 || is_builtin(section.key));
}

RecordDecoder::RecordDecoder(const Schema& schema) : entries_(schema.entries) {
  declared_.positions = schema.positions;
  for (const SchemaEntry& entry : entries_) {
    const std::optional<Shape> shape = declared_shape(entry);
    const Scope scope = field_scope(entry.scope, entry.key, entry.type, shape);
    declared_.fields.push_back({scope, entry.key, entry.type, shape});
    const FieldView view{scope, {}, entry.type, shape.value_or(Shape{})};
    const TagTraits& traits = traits_of(entry.tag);
    const bool any_length = !shape || traits.form == Form::text;
    const uint64_t bytes = entry.type.level == Level::atom ? traits.element_bytes : entry.slot_bytes.value_or(0);
    expected_.push_back({section_header(entry), view, bytes, any_length});
  }
  const auto place = [](const auto& field) { return std::tuple(field.scope, std::string_view(field.key)); };
  std::ranges::sort(declared_.fields, {}, place);
  for (size_t i = 0; i < expected_.size(); ++i) {
    FieldView& view = expected_[i].view;
    view.key = entries_[i].key;
    const auto found = std::ranges::lower_bound(declared_.fields, place(view), {}, place);
    view.declaration = static_cast<int32_t>(found - declared_.fields.begin());
  }
}

uint64_t RecordDecoder::min_bytes(uint64_t n_atoms) const {
  return 6 + n_atoms * (3 * item_bytes(declared_.positions) + 1);  // n_atoms < 2^32: no overflow
}

void RecordDecoder::visit(Bytes record, uint64_t indexed_atoms, MoleculeVisitor& visitor) const {
  ByteCursor cursor(record);
  const auto n_atoms = cursor.read_le<uint32_t>("atom count");
  if (n_atoms != indexed_atoms) {
    throw CorruptFileError(cat("atom count: expected ", indexed_atoms, " as in the index, got ", n_atoms), 0);
  }
  Geometry geometry{n_atoms, declared_.positions, {}, {}};
  geometry.positions = cursor.take(uint64_t{n_atoms} * 3 * item_bytes(declared_.positions), "positions");
  geometry.numbers = cursor.take(n_atoms, "atomic numbers");
  visitor.geometry(geometry);
  const auto n_sections = cursor.read_le<uint16_t>("section count");
  size_t guess = 0;
  for (int i = 0; i < n_sections; ++i) visit_section(cursor, record, n_atoms, guess, visitor);
}

// Sections are usually in schema order: the guess is the entry after the last match.
const RecordDecoder::Expected* RecordDecoder::match(Bytes rest, size_t& guess) const {
  const auto matches = [&](size_t i) {
    if (i >= expected_.size()) return false;
    const std::string& header = expected_[i].header;
    return rest.size() >= header.size() && same_bytes(rest.data(), header.data(), header.size());
  };
  if (!matches(guess)) {
    if (rest.size() < 2) return nullptr;
    const auto key_length = static_cast<size_t>(rest[1]);
    if (rest.size() - 2 < key_length) return nullptr;
    guess = find(static_cast<Scope>(rest[0]), as_text(rest.subspan(2, key_length)));
    if (!matches(guess)) return nullptr;
  }
  return &expected_[guess++];
}

void RecordDecoder::visit_section(ByteCursor& cursor, Bytes record, uint64_t n_atoms, size_t& guess,
                                  MoleculeVisitor& visitor) const {
  const Expected* expected = match(record.subspan(cursor.position()), guess);
  if (expected == nullptr) return visit_unexpected(cursor, n_atoms, visitor);
  cursor.take(expected->header.size(), "section header");
  const auto length = cursor.read_le<uint32_t>("payload length");
  const uint64_t payload_at = cursor.position();
  const Bytes payload = cursor.take(length, "payload");
  const uint64_t rows = expected->view.type.level == Level::atom ? n_atoms : 1;
  if (!expected->any_length && length == expected->payload_bytes * rows) [[likely]] {
    return visitor.field(expected->view, payload);
  }
  FieldView view = expected->view;
  Bytes data;
  try {
    if (!expected->any_length) {
      throw_corrupt("payload length: expected ", expected->payload_bytes * rows, ", got ", length);
    }
    view.row_shape = Shape{};
    data = read_value(view, static_cast<uint8_t>(expected->header.back()), payload, n_atoms);
  } catch (CorruptFileError& error) {
    return report_fault(view, error, payload_at, visitor);
  }
  visitor.field(view, data);
}

void RecordDecoder::visit_unexpected(ByteCursor& cursor, uint64_t n_atoms, MoleculeVisitor& visitor) const {
  const RawSection section = read_section(cursor);
  if (!is_visible(section)) return;
  const uint8_t tag = section.tag;

  FieldView view{static_cast<Scope>(section.kind), section.key, {}, {}};
  Bytes data;
  try {
    if (const size_t listed = find(view.scope, view.key); listed < entries_.size()) {
      view.scope = expected_[listed].view.scope;
      throw CorruptFileError(
          cat("type tag: expected ", int{entries_[listed].tag}, " as in the schema, got ", int{tag}));
    }
    const std::optional<FieldType> type = field_type(view.scope, view.key, tag);
    if (!type) throw_corrupt("type tag: ", int{tag}, " is invalid here");
    view.type = *type;
    data = read_value(view, tag, section.payload, n_atoms);
    view.scope = field_scope(view.scope, view.key, view.type, view.row_shape);
  } catch (CorruptFileError& error) {
    return report_fault(view, error, section.payload_at, visitor);
  }
  visitor.field(view, data);
}

// The number of the entry, or the number of entries.
size_t RecordDecoder::find(Scope scope, std::string_view key) const {
  const auto place = [](const SchemaEntry& entry) { return std::tuple(entry.scope, std::string_view(entry.key)); };
  const auto found = std::ranges::lower_bound(entries_, std::tuple(scope, key), {}, place);
  const bool listed = found != entries_.end() && place(*found) == std::tuple(scope, key);
  return listed ? static_cast<size_t>(found - entries_.begin()) : entries_.size();
}

}  // namespace atompack::atp
