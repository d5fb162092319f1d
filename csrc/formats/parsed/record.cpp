#include "formats/parsed/record.h"

namespace atompack::parsed {

RecordWriter::RecordWriter(std::span<std::byte> out, std::span<const double> positions,
                           std::span<const uint8_t> numbers)
    : out_(out) {
  store_le(take(sizeof(uint64_t)).data(), static_cast<uint64_t>(numbers.size()));
  store(take(positions.size_bytes()).data(), std::as_bytes(positions));
  store(take(padded(numbers.size())).data(), std::as_bytes(numbers));
}

std::span<std::byte> RecordWriter::take(uint64_t n) {
  if (n > out_.size() - end_) {
    throw_corrupt("expected a molecule of at most ", out_.size(), " bytes as in the index, got more");
  }
  const std::span<std::byte> taken = out_.subspan(end_, n);
  end_ += n;
  return taken;
}

std::span<std::byte> RecordWriter::add(int32_t declaration, const Shape& row_shape, uint64_t bytes) {
  std::byte* at = take(16 + 8 * row_shape.dims().size()).data();
  at = store_le(at, declaration);
  at = store_le(at, static_cast<uint32_t>(row_shape.rank()));
  at = store_le(at, bytes);
  store(at, std::as_bytes(row_shape.dims()));
  return take(padded(bytes)).first(bytes);
}

void visit_record(Bytes record, const MoleculeSchema& schema, MoleculeVisitor& visitor) {
  const std::byte* at = record.data();
  const std::byte* const end = at + record.size();
  const auto n_atoms = load_le<uint64_t>(at);
  const Bytes positions(at + 8, 24 * n_atoms), numbers(at + 8 + 24 * n_atoms, n_atoms);
  visitor.geometry({static_cast<int64_t>(n_atoms), DType::float64, positions, numbers});
  at += structure_bytes(n_atoms);
  while (at != end) {
    const auto number = load_le<int32_t>(at);
    const auto rank = load_le<uint32_t>(at + 4);
    const auto bytes = load_le<uint64_t>(at + 8);
    Shape row_shape;
    for (uint32_t i = 0; i < rank; ++i) row_shape.push_back(load_le<int64_t>(at + 16 + 8 * i));
    at += 16 + 8 * rank;
    const FieldDeclaration& declared = schema.fields[static_cast<size_t>(number)];
    visitor.field({declared.scope, declared.key, declared.type, row_shape, number}, {at, bytes});
    at += padded(bytes);
  }
}

}  // namespace atompack::parsed
