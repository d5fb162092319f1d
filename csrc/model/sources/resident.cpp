#include "model/sources/resident.h"

namespace atompack {
namespace {

constexpr std::string_view kTooShort = "resident record";

uint64_t rows_of(const ResidentEntry& entry, Level level) {
  switch (level) {
    case Level::molecule:
      return 1;
    case Level::atom:
      return entry.n_atoms;
    case Level::edge:
      return entry.n_edges;
    case Level::triplet:
      return entry.n_triplets;
  }
  throw InternalError("level out of range");
}

Shape take_shape(ByteCursor& cursor) {
  const auto rank = cursor.read_le<uint64_t>(kTooShort);
  if (rank > Shape::kMaxRank) throw_corrupt("rank: expected at most ", Shape::kMaxRank, ", got ", rank);
  Shape shape;
  for (uint64_t i = 0; i < rank; ++i) shape.push_back(cursor.read_le<int64_t>(kTooShort));
  return shape;
}

// Takes the next value of a record; completes the view with its shape.
Bytes take_value(ByteCursor& cursor, const ResidentEntry& entry, FieldView& view, bool has_fixed_shape) {
  if (view.type.kind == ValueKind::none) return {};
  if (view.type.kind == ValueKind::string) return cursor.take(cursor.read_le<uint64_t>(kTooShort), kTooShort);
  if (!has_fixed_shape) view.row_shape = take_shape(cursor);
  const auto row = static_cast<uint64_t>(view.row_shape.numel()) * item_bytes(view.type.dtype);
  return cursor.take(rows_of(entry, view.type.level) * row, kTooShort);
}

}  // namespace

ResidentSource::ResidentSource(std::shared_ptr<const ResidentTables> tables, std::span<const std::byte> memory,
                               int64_t n_molecules, std::shared_ptr<const void> owner)
    : tables_(std::move(tables)), owner_(std::move(owner)), memory_(memory), size_(n_molecules) {
  const auto n_entries = static_cast<size_t>(n_molecules) + 1;
  if (n_molecules < 0 || n_entries > memory.size() / sizeof(ResidentEntry)) {
    throw_corrupt("resident molecules: expected ", n_entries, " entries in ", memory.size(), " bytes");
  }
  entries_ = {reinterpret_cast<const ResidentEntry*>(memory.data()), n_entries};
  for (size_t i = 0; i < entries_.size(); ++i) {
    const bool ascends = i == 0 || entries_[i].offset >= entries_[i - 1].offset;
    const bool has_form = i + 1 == entries_.size() || entries_[i].form < tables_->forms.size();
    if (!ascends || !has_form || entries_[i].offset > memory.size()) {
      throw CorruptFileError("resident molecules: an entry is damaged").at_molecule(static_cast<int64_t>(i));
    }
  }
  for (const ResidentField& field : tables_->fields) {
    FieldView& view = views_.emplace_back();
    view.scope = field.scope;
    view.key = field.key;
    view.type = field.type;
    view.declaration = field.declaration;
    if (field.row_shape) view.row_shape = Shape(std::span(*field.row_shape));
  }
}

MoleculeExtent ResidentSource::extent(int64_t index) const {
  const ResidentEntry& found = entry(index);
  const auto bytes = static_cast<int64_t>(entry(index + 1).offset - found.offset);
  return {.n_atoms = found.n_atoms,
          .decoded_bytes = bytes,
          .work = bytes,
          .n_edges = found.n_edges,
          .n_triplets = found.n_triplets};
}

void ResidentSource::prefetch(int64_t index) const {
  const uint64_t begin = entry(index).offset;
  atompack::prefetch(memory_.subspan(begin, entry(index + 1).offset - begin));
}

Bytes ResidentSource::decode(int64_t index, std::span<std::byte>) const {
  const ResidentEntry& found = entry(index);
  return memory_.subspan(found.offset, entry(index + 1).offset - found.offset);
}

void ResidentSource::visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const {
  const ResidentEntry& found = entry(index);
  const ResidentForm& fields = form(index);
  located(index, [&] {
    ByteCursor cursor(record);
    const uint64_t atoms = found.n_atoms;
    const Bytes positions = cursor.take(3 * atoms * item_bytes(fields.positions), kTooShort);
    const Bytes numbers = cursor.take(atoms * item_bytes(fields.numbers), kTooShort);
    visitor.geometry({.n_atoms = found.n_atoms,
                      .positions_dtype = fields.positions,
                      .positions = positions,
                      .numbers = numbers,
                      .numbers_dtype = fields.numbers});
    for (const int32_t number : fields.fields) {
      const auto field = static_cast<size_t>(number);
      FieldView view = views_[field];
      const Bytes data = take_value(cursor, found, view, tables_->fields[field].row_shape.has_value());
      visitor.field(view, data);
    }
  });
}

}  // namespace atompack
