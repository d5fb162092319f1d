// Parsed record: one molecule as a run of bytes, which a source builds in the scratch and then shows to a visitor.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/shape.h"
#include "model/molecule_source.h"

namespace atompack::parsed {

// Upper bounds of the bytes of parts of a record.
constexpr uint64_t padded(uint64_t bytes) { return (bytes + 7) / 8 * 8; }
constexpr uint64_t structure_bytes(uint64_t n_atoms) { return 8 + 24 * n_atoms + padded(n_atoms); }
// A field with `bytes` of values and at most `rank` dimensions.
constexpr uint64_t field_bytes(uint64_t bytes, uint64_t rank) { return 16 + 8 * rank + padded(bytes); }

// Throws CorruptFileError where the record would be longer than `out`. Not thread-safe.
class RecordWriter {
 public:
  RecordWriter(std::span<std::byte> out, std::span<const double> positions, std::span<const uint8_t> numbers);

  // Adds a field with the type that the schema declares for it, and returns its `bytes` bytes, to be filled in.
  std::span<std::byte> add(int32_t declaration, const Shape& row_shape, uint64_t bytes);
  void add(int32_t declaration, const Shape& row_shape, Bytes values) {
    store(add(declaration, row_shape, values.size()).data(), values);
  }

  Bytes finish() const { return Bytes(out_).first(end_); }

 private:
  std::span<std::byte> take(uint64_t n);

  std::span<std::byte> out_;
  uint64_t end_ = 0;
};

void visit_record(Bytes record, const MoleculeSchema& schema, MoleculeVisitor& visitor);

}  // namespace atompack::parsed
