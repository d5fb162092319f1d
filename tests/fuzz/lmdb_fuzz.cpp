#include <memory>
#include <vector>

#include "file_in_memory.h"
#include "formats/lmdb/row_block.h"
#include "formats/lmdb/row_list.h"
#include "formats/parsed/field_map.h"
#include "formats/parsed/index.h"

namespace atompack::fuzz {
namespace {

using lmdb::Row;
using lmdb::RowValue;
using parsed::FieldMap;

// All values as custom properties.
FieldMap fields_of(const parsed::Survey& survey) {
  std::vector<parsed::Target> targets;
  for (const parsed::SurveyedField& field : survey.fields()) {
    const Scope scope = field.level == Level::atom ? Scope::atom_property : Scope::molecule_property;
    targets.push_back({field.level, field.key, scope, field.key, field.kind, field.shape, false, field.is_narrow});
  }
  return {targets, survey.has_cells(), parsed::Masses(), true};
}

class LengthCheck final : public MoleculeVisitor {
 public:
  void geometry(const Geometry& geometry) override { n_atoms_ = geometry.n_atoms; }
  void field(const FieldView& field, Bytes data) override {
    const auto rows = static_cast<uint64_t>(field.type.level == Level::atom ? n_atoms_ : 1);
    const uint64_t n = rows * static_cast<uint64_t>(field.row_shape.numel()) * item_bytes(field.type.dtype);
    require(field.type.kind != ValueKind::numeric || data.size() == n, "a value is as long as its shape says");
  }

 private:
  int64_t n_atoms_ = 0;
};

void check(Row& row) {
  for (const RowValue& value : row.values()) {
    const uint64_t rows = value.level == Level::atom ? row.numbers.size() : 1;
    const bool has_values = value.array.kind != parsed::Kind::text && value.array.kind != parsed::Kind::null;
    require(!has_values || value.array.size() == rows * parsed::product(value.array.shape), "an array has its shape");
  }
  parsed::Survey survey;
  add_row(row, survey);
  const FieldMap fields = fields_of(survey);
  std::vector<std::byte> scratch(record_bytes_of(row));
  LengthCheck lengths;
  parsed::visit_record(build_record(row, fields, scratch), fields.schema(), lengths);
}

}  // namespace

void read_row(Bytes input) {
  Row row;
  try {
    row.parse(input);
  } catch (const CorruptFileError&) {
    return;
  }
  check(row);
}

void read_row_list(Bytes input) {
  static const FileInMemory file;
  constexpr int64_t kMaxRows = 64;
  try {
    const lmdb::RowList list(file.hold(input));
    lmdb::RowMemory memory;
    Row row;
    for (int64_t i = 0; i < std::min(list.size(), kMaxRows); ++i) {
      list.read(i, row, memory);
      check(row);
    }
  } catch (const DataError&) {
    return;  // named
  }
}

void read_index(Bytes input) {
  try {
    const parsed::Index index = parsed::decode_index(input);
    const std::vector<std::byte> again = parsed::encode_index(index);
    require(parsed::encode_index(parsed::decode_index(again)) == again, "an index survives");
  } catch (const DataError&) {
    return;  // named
  }
}

}  // namespace atompack::fuzz
