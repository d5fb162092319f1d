// Encoder of columns as records; FORMAT.md#record.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codec/codec.h"
#include "formats/atp/columns.h"
#include "formats/atp/reader.h"
#include "formats/atp/schema.h"

namespace atompack::atp {

// Properties common to all records of a file.
struct RecordRules {
  bool is_fixed = false;  // by molecules in the file; until then by the next call
  uint32_t format = 2;
  std::optional<DType> positions;  // type in the schema, once there is one
  Schema schema;
};

// Molecules of one call, checked against the file's rules and against each other. Keeps views of the columns.
class Encoder {
 public:
  // Adds to the rules. Throws FieldError, naming key, types and molecule (counted within these columns), if they do not
  // fit; all molecules are checked before any is encoded.
  Encoder(const Columns& columns, codec::Codec codec, RecordRules& rules);

  int64_t size() const { return static_cast<int64_t>(record_bytes_.size()); }
  uint32_t n_atoms(int64_t i) const;
  uint64_t record_bytes(int64_t i) const { return record_bytes_[static_cast<size_t>(i)]; }
  // Writes record_bytes(i) bytes to `out`.
  void encode(int64_t i, std::byte* out) const;

 private:
  // A column as a section of each record.
  struct Section {
    const Column* column;
    Level level;
    bool is_tensor;
    std::string head;    // kind, key length, key, tag
    uint64_t row_bytes;  // of the stacked form
    Shape row_shape;     // of the stacked form
  };

  int64_t row(int64_t i) const { return columns_.rows ? (*columns_.rows)[static_cast<size_t>(i)] : i; }
  int64_t atoms_of(int64_t row) const {
    return columns_.ptr[static_cast<size_t>(row) + 1] - columns_.ptr[static_cast<size_t>(row)];
  }
  void check_structure(RecordRules& rules) const;
  void check_rows() const;
  void check_numbers() const;
  void check_column(const Column& column) const;
  std::optional<Section> section_of(const Column& column, SchemaUnion& known) const;
  void check_scopes() const;
  void check_sizes(codec::Codec codec);
  uint64_t payload_bytes(const Section& section, int64_t row) const;
  std::byte* encode_payload(const Section& section, int64_t row, std::byte* at) const;

  const Columns& columns_;
  std::vector<Section> sections_;  // in the order in which they are written
  std::vector<uint64_t> record_bytes_;
};

// Derivation of a schema from existing records.

// Adds the sections of records to a file's rules.
class SectionCollector {
 public:
  // `rules` are those of the file that the records are copied to. Throws FieldError if its positions differ in type.
  SectionCollector(const Reader& from, RecordRules& rules);

  // Throws FieldError if a section conflicts with earlier ones, CorruptFileError if the record or a value is damaged.
  void collect(int64_t index, Bytes record);

  // Adds the collected sections to the rules.
  void join();

 private:
  class Visitor;
  void add(const SchemaEntry& entry);
  void collect_undeclared(Bytes record);

  const Reader& from_;
  RecordRules& rules_;
  SchemaUnion known_;
  std::vector<bool> seen_;  // per declaration of the other file
};

// Derives the rules of a file that has records but no schema (release 0.2.x). Throws FieldError if its records
// disagree.
RecordRules derive_rules(const Reader& reader);

}  // namespace atompack::atp
