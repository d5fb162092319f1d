#include "formats/atp/encoder.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

#include "formats/atp/record.h"
#include "model/fields.h"

namespace atompack::atp {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint32_t>::max();  // maximum of every size and count in the format
constexpr uint64_t kMaxSections = 65535;

Scope stored_scope(const Column& column) { return atp::stored_scope(column.scope, column.key); }

// Builtin fields are written first, then properties of atoms, then those of molecules, each sorted by key, except that
// charges come before all.
auto writing_place(const Column& column) {
  const Scope scope = stored_scope(column);
  const bool are_charges = scope == Scope::builtin && column.key == "charges";
  return std::tuple(scope, !are_charges, std::string_view(column.key));
}

// Level of a column in a schema.
Level level_of(const Column& column) {
  if (column.scope != Scope::builtin) return column.scope == Scope::atom_property ? Level::atom : Level::molecule;
  if (const BuiltinField* const builtin = find_builtin(column.key)) return builtin->level;
  throw FieldError("key: expected the name of a builtin field, got another").at_field(column.key);
}

Shape without_first(const Shape& shape) {
  Shape rest;
  for (int i = 1; i < shape.rank(); ++i) rest.push_back(shape.dims()[static_cast<size_t>(i)]);
  return rest;
}

std::string words_for(const Value& value, const Shape& row_shape) {
  switch (value.kind) {
    case ValueKind::none:
      return "None";
    case ValueKind::string:
      return "text";
    case ValueKind::numeric:
      return row_shape.rank() == 0 ? cat(name_of(value.dtype), " number")
                                   : cat(name_of(value.dtype), " array of shape ", row_shape);
  }
  return "?";
}

// Dimensions of an array without values may otherwise be arbitrarily large.
void check_dims(const Shape& row_shape) {
  uint64_t product = 1;
  for (const int64_t dim : row_shape.dims()) {
    const auto size = static_cast<uint64_t>(std::max(dim, int64_t{1}));
    if (size > kMax || __builtin_mul_overflow(product, size, &product) || product > kMax) {
      throw FieldError(cat("shape: expected less than 2^32 elements, got ", row_shape));
    }
  }
}

SchemaEntry entry_of(const Column& column, Level level, const Value& value, const Shape& row_shape) {
  check_dims(row_shape);
  const FieldType type{level, value.kind, value.kind == ValueKind::numeric ? value.dtype : DType::uint8};
  const std::optional<uint8_t> tag = tag_for(column.scope, column.key, type, row_shape);
  if (!tag) {
    throw FieldError(cat("type: the format cannot store ", words_for(value, row_shape),
                         level == Level::atom ? " per atom in this field" : " in this field"));
  }
  return entry_for(stored_scope(column), column.key, *tag, type, row_shape);
}

void check_format(const SchemaEntry& entry, RecordRules& rules) {
  if (!needs_format_3(entry.scope, entry.tag)) return;
  if (!rules.is_fixed) {
    rules.format = 3;
  } else if (rules.format == 2) {
    const FieldType& type = entry.type;
    throw FieldError(cat("type: expected ", type.dtype == DType::float32 ? "float64" : "float32",
                         " as in records of format 2, got ", name_of(type.dtype)));
  }
}

bool has_field(const Column& column, int64_t row) {
  const auto at = static_cast<size_t>(row);
  if (column.present != nullptr && !column.present[at]) return false;
  return column.stacked || column.scope != Scope::builtin || column.each[at].kind != ValueKind::none;
}

}  // namespace

Encoder::Encoder(const Columns& columns, codec::Codec codec, RecordRules& rules) : columns_(columns) {
  check_rows();
  record_bytes_.resize(columns.rows ? columns.rows->size() : columns.ptr.size() - 1);
  if (size() == 0) return;
  check_structure(rules);
  check_numbers();
  SchemaUnion known(rules.schema);
  for (const Column& column : columns.fields) {
    at_field(column.key, [&] {
      check_column(column);
      if (auto section = section_of(column, known)) sections_.push_back(std::move(*section));
    });
  }
  for (const SchemaEntry& entry : known.added()) {
    at_field(entry.key, [&] { check_format(entry, rules); });
  }
  const auto place = [](const Section& section) { return writing_place(*section.column); };
  std::ranges::sort(sections_, {}, place);
  if (const auto twice = std::ranges::adjacent_find(sections_, {}, place); twice != sections_.end()) {
    const bool is_label = twice->column->scope != std::next(twice)->column->scope;
    throw FieldError(is_label ? "key: expected a label or a property, got both" : "duplicate key")
        .at_field(twice->column->key);
  }
  check_scopes();
  check_sizes(codec);
  if (!known.added().empty()) rules.schema = known.merged_schema();
}

uint32_t Encoder::n_atoms(int64_t i) const { return static_cast<uint32_t>(atoms_of(row(i))); }

// Checks that ptr and rows are in range; all other code relies on it.
void Encoder::check_rows() const {
  const auto& ptr = columns_.ptr;
  if (ptr.empty() || ptr.front() != 0) throw FieldError("ptr: expected to start with 0");
  if (!std::ranges::is_sorted(ptr)) throw FieldError("ptr: expected ascending numbers");
  const Shape& positions = columns_.positions.shape;
  if (positions != Shape{ptr.back(), 3}) {
    throw FieldError(cat("shape: expected ", Shape{ptr.back(), 3}, ", got ", positions)).at_field("positions");
  }
  if (columns_.numbers.shape != Shape{ptr.back()}) {
    throw FieldError(cat("shape: expected ", Shape{ptr.back()}, ", got ", columns_.numbers.shape))
        .at_field("atomic_numbers");
  }
  if (!columns_.rows) return;
  const auto n = static_cast<int64_t>(ptr.size()) - 1;
  for (const int64_t row : *columns_.rows) {
    if (row < 0 || row >= n) throw InternalError(cat("molecule ", row, " is not one of ", n));
  }
}

void Encoder::check_structure(RecordRules& rules) const {
  const DType dtype = columns_.positions.dtype;
  if (dtype != DType::float32 && dtype != DType::float64) {
    throw FieldError(cat("type: expected float32 or float64, got ", name_of(dtype))).at_field("positions");
  }
  if (rules.positions && *rules.positions != dtype) {
    throw FieldError(
        cat("type: expected ", name_of(*rules.positions), " as in earlier molecules, got ", name_of(dtype)))
        .at_field("positions");
  }
  rules.positions = dtype;
  if (dtype == DType::float64) rules.format = 3;  // fixed rules have that format already
}

void Encoder::check_numbers() const {
  constexpr int64_t kMaxNumber = 255;
  const std::byte* const numbers = columns_.numbers.data.data();
  if (columns_.numbers.dtype != DType::int64) throw InternalError("atomic numbers come as int64");
  for (int64_t i = 0; i < size(); ++i) {
    const auto first = static_cast<size_t>(columns_.ptr[static_cast<size_t>(row(i))]);
    const auto n = static_cast<size_t>(atoms_of(row(i)));
    uint64_t bits = 0;
    for (size_t k = first; k < first + n; ++k) bits |= load_le<uint64_t>(numbers + 8 * k);
    if (bits <= kMaxNumber) continue;
    for (size_t k = first; k < first + n; ++k) {
      const auto number = load_le<int64_t>(numbers + 8 * k);
      if (number >= 0 && number <= kMaxNumber) continue;
      throw FieldError(cat("atomic number: expected 0 to 255, got ", number)).at_field("atomic_numbers").at_molecule(i);
    }
  }
}

void Encoder::check_column(const Column& column) const {
  if (column.key.size() > kMaxKeyBytes) {
    throw FieldError(cat("key: expected at most ", kMaxKeyBytes, " bytes, got ", column.key.size()));
  }
  if (column.scope != Scope::builtin && column.key == "stress") {
    throw FieldError("key: expected another name for a property, got a reserved one");
  }
  const bool per_atom = level_of(column) == Level::atom;
  const int64_t molecules = static_cast<int64_t>(columns_.ptr.size()) - 1;
  const int64_t rows = per_atom ? columns_.ptr.back() : molecules;
  if (column.stacked) {
    const Shape& shape = column.stacked->shape;
    if (shape.rank() == 0 || shape.dims()[0] != rows) {
      throw FieldError(cat("shape: expected ", rows, " rows, got ", shape));
    }
  } else if (static_cast<int64_t>(column.each.size()) != molecules) {
    throw FieldError(cat("values: expected one for each of ", molecules, " molecules, got ", column.each.size()));
  }
}

// Returns nullopt if no molecule has the field.
std::optional<Encoder::Section> Encoder::section_of(const Column& column, SchemaUnion& known) const {
  const Level level = level_of(column);
  std::optional<Section> section;
  const auto add = [&](const Value& value, const Shape& row_shape) {
    const SchemaEntry entry = entry_of(column, level, value, row_shape);
    known.add(entry);
    if (section) return;
    const uint64_t row_bytes = static_cast<uint64_t>(row_shape.numel()) * item_bytes(value.dtype);
    section =
        Section{&column, level, traits_of(entry.tag).form == Form::tensor, section_header(entry), row_bytes, row_shape};
  };
  for (int64_t i = 0; i < size(); ++i) {
    const auto at = static_cast<size_t>(row(i));
    if (column.present != nullptr && !column.present[at]) continue;
    try {
      if (column.stacked) {
        add(*column.stacked, without_first(column.stacked->shape));
        return section;  // all rows have the same type and shape
      }
      const Value& value = column.each[at];
      if (column.scope == Scope::builtin && value.kind == ValueKind::none) continue;
      if (level == Level::molecule) {
        add(value, value.shape);
        continue;
      }
      if (value.kind == ValueKind::numeric && (value.shape.rank() == 0 || value.shape.dims()[0] != atoms_of(row(i)))) {
        throw FieldError(cat("shape: expected ", atoms_of(row(i)), " rows, got ", value.shape));
      }
      add(value, without_first(value.shape));
    } catch (DataError& error) {
      error.at_molecule(i);
      throw;
    }
  }
  return section;
}

// The original cannot read a record that has a key in both scopes.
void Encoder::check_scopes() const {
  for (const Section& first : sections_) {
    if (stored_scope(*first.column) != Scope::atom_property) continue;
    for (const Section& second : sections_) {
      if (stored_scope(*second.column) != Scope::molecule_property || second.column->key != first.column->key) continue;
      for (int64_t i = 0; i < size(); ++i) {
        if (!has_field(*first.column, row(i)) || !has_field(*second.column, row(i))) continue;
        throw FieldError("key: expected it for the molecule or for its atoms, got both")
            .at_field(first.column->key)
            .at_molecule(i);
      }
    }
  }
}

void Encoder::check_sizes(codec::Codec codec) {
  const uint64_t position_bytes = 3 * item_bytes(columns_.positions.dtype);
  if (sections_.size() > kMaxSections) {
    throw FieldError(cat("fields: expected at most ", kMaxSections, ", got ", sections_.size()));
  }
  for (int64_t i = 0; i < size(); ++i) {
    const auto n = static_cast<uint64_t>(atoms_of(row(i)));
    uint64_t bytes = 6 + n * (position_bytes + 1);
    for (const Section& section : sections_) {
      if (!has_field(*section.column, row(i))) continue;
      bytes += section.head.size() + 4 + payload_bytes(section, row(i));
    }
    at_molecule(i, [&] {
      if (n <= kMax && bytes <= kMax && codec::compressed_bound(codec, bytes) <= kMax) return;
      throw FieldError(cat("record: expected less than 4 GiB, got ", bytes, " bytes"));
    });
    record_bytes_[static_cast<size_t>(i)] = bytes;
  }
}

uint64_t Encoder::payload_bytes(const Section& section, int64_t row) const {
  const auto shape_bytes = [&](int rank) { return section.is_tensor ? 1 + 4 * static_cast<uint64_t>(rank) : 0; };
  if (!section.column->stacked) {
    const Value& value = section.column->each[static_cast<size_t>(row)];
    return shape_bytes(value.shape.rank()) + value.data.size();
  }
  const bool per_atom = section.level == Level::atom;
  const uint64_t rows = per_atom ? static_cast<uint64_t>(atoms_of(row)) : 1;
  return shape_bytes(section.row_shape.rank() + (per_atom ? 1 : 0)) + rows * section.row_bytes;
}

std::byte* Encoder::encode_payload(const Section& section, int64_t row, std::byte* at) const {
  const auto store_rank = [&](int rank) {
    if (section.is_tensor) at = store_le(at, static_cast<uint8_t>(rank));
  };
  const auto store_dims = [&](std::span<const int64_t> dims) {
    if (!section.is_tensor) return;
    for (const int64_t dim : dims) at = store_le(at, static_cast<uint32_t>(dim));
  };
  if (!section.column->stacked) {
    const Value& value = section.column->each[static_cast<size_t>(row)];
    store_rank(value.shape.rank());
    store_dims(value.shape.dims());
    return store(at, value.data);
  }
  const bool per_atom = section.level == Level::atom;
  const int64_t rows = per_atom ? atoms_of(row) : 1;
  const int64_t first = per_atom ? columns_.ptr[static_cast<size_t>(row)] : row;
  store_rank(section.row_shape.rank() + (per_atom ? 1 : 0));
  if (per_atom) store_dims({&rows, 1});
  store_dims(section.row_shape.dims());
  return store(at, section.column->stacked->data.subspan(static_cast<uint64_t>(first) * section.row_bytes,
                                                         static_cast<uint64_t>(rows) * section.row_bytes));
}

void Encoder::encode(int64_t i, std::byte* out) const {
  const int64_t row = this->row(i);
  const auto first = static_cast<uint64_t>(columns_.ptr[static_cast<size_t>(row)]);
  const auto n = static_cast<uint64_t>(atoms_of(row));
  const uint64_t position_bytes = 3 * item_bytes(columns_.positions.dtype);
  std::byte* at = store_le(out, static_cast<uint32_t>(n));
  at = store(at, columns_.positions.data.subspan(first * position_bytes, n * position_bytes));
  const std::byte* const numbers = columns_.numbers.data.data() + 8 * first;
  for (uint64_t k = 0; k < n; ++k) *at++ = numbers[8 * k];  // the lowest byte: all numbers are below 256
  std::byte* const count_at = at;
  at += sizeof(uint16_t);
  uint16_t count = 0;
  for (const Section& section : sections_) {
    if (!has_field(*section.column, row)) continue;
    ++count;
    at = store(at, as_bytes(section.head));
    std::byte* const length_at = at;
    at = encode_payload(section, row, at + sizeof(uint32_t));
    store_le(length_at, static_cast<uint32_t>(at - length_at - sizeof(uint32_t)));
  }
  store_le(count_at, count);
  if (at != out + record_bytes(i)) throw InternalError("a record came out longer or shorter than planned");
}

class SectionCollector::Visitor final : public MoleculeVisitor {
 public:
  explicit Visitor(SectionCollector& owner) : owner_(owner) {}

  void geometry(const Geometry&) override {}

  void field(const FieldView& view, Bytes) override {
    if (view.fault != nullptr) throw *view.fault;
    if (view.declaration < 0) {
      found_undeclared_ = true;
      return;
    }
    const auto declared = static_cast<size_t>(view.declaration);
    if (owner_.seen_[declared]) return;
    const Scope scope = atp::stored_scope(view.scope, view.key);
    const auto is_this = [&](const SchemaEntry& entry) { return entry.scope == scope && entry.key == view.key; };
    owner_.add(*std::ranges::find_if(owner_.from_.stored_schema().entries, is_this));
    owner_.seen_[declared] = true;
  }

  bool found_undeclared() const { return found_undeclared_; }

 private:
  SectionCollector& owner_;
  bool found_undeclared_ = false;
};

void SectionCollector::add(const SchemaEntry& entry) {
  at_field(entry.key, [&] {
    known_.add(entry);
    const bool fits = rules_.format != 2 || from_.header().record_format == 2;
    if (!fits && needs_format_3(entry.scope, entry.tag)) {
      throw FieldError(cat("type: record format 2 cannot store ", words_for(entry.tag), " in this field"));
    }
  });
}

SectionCollector::SectionCollector(const Reader& from, RecordRules& rules)
    : from_(from), rules_(rules), known_(rules.schema), seen_(from.stored_schema().entries.size()) {
  const DType positions = from.schemas()[0].positions;
  if (rules.positions && *rules.positions != positions) {
    throw FieldError(
        cat("type: expected ", name_of(*rules.positions), " as in earlier molecules, got ", name_of(positions)))
        .at_field("positions");
  }
  rules.positions = positions;
  if (!rules.is_fixed) rules.format = from.header().record_format;
}

void SectionCollector::collect(int64_t index, Bytes record) {
  Visitor visitor(*this);
  from_.visit(index, record, visitor);
  if (!visitor.found_undeclared()) return;
  from_.located(index, [&] { collect_undeclared(record); });
}

// A visitor does not see tags, and several tags may stand for the same type.
void SectionCollector::collect_undeclared(Bytes record) {
  ByteCursor cursor(record);
  const auto n_atoms = cursor.read_le<uint32_t>("atom count");
  cursor.take(n_atoms * (3 * item_bytes(from_.schemas()[0].positions) + 1), "positions and atomic numbers");
  const auto n_sections = cursor.read_le<uint16_t>("section count");
  for (int i = 0; i < n_sections; ++i) {
    const RawSection section = read_section(cursor);
    if (!is_visible(section)) continue;
    const auto scope = static_cast<Scope>(section.kind);
    const auto same = [&](const SchemaEntry& entry) { return entry.scope == scope && entry.key == section.key; };
    if (std::ranges::any_of(from_.stored_schema().entries, same)) continue;
    const std::optional<FieldType> type = field_type(scope, section.key, section.tag);
    if (!type) throw InternalError("a section that passed its checks has no type");
    const auto shape = row_shape(traits_of(section.tag), type->level, section.payload.size(), n_atoms);
    // the shape of tensors is not needed
    add(entry_for(scope, section.key, section.tag, *type, shape.value_or(Shape{})));
  }
}

void SectionCollector::join() {
  Schema schema = known_.merged_schema();
  for (const RawSchemaEntry& raw : from_.stored_schema().hidden) {
    const auto is_same = [&](const RawSchemaEntry& other) { return other.kind == raw.kind && other.key == raw.key; };
    if (std::ranges::none_of(schema.hidden, is_same)) schema.hidden.push_back(raw);
  }
  rules_.schema = std::move(schema);
}

RecordRules derive_rules(const Reader& reader) {
  RecordRules rules;
  SectionCollector sections(reader, rules);
  std::vector<std::byte> scratch;
  for (int64_t i = 0; i < reader.size(); ++i) {
    sections.collect(i, decode(reader, i, reader.extent(i), scratch));
  }
  sections.join();
  rules.is_fixed = reader.size() > 0;
  return rules;
}

}  // namespace atompack::atp
