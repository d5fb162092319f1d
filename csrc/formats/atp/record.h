// One decoded record: geometry, then sections; FORMAT.md#record.
#pragma once

#include <string>
#include <vector>

#include "formats/atp/schema.h"
#include "model/molecule_source.h"

namespace atompack::atp {

// A section as it lies in a record.
struct RawSection {
  uint8_t kind, tag;
  std::string_view key;
  Bytes payload;
  uint64_t start, payload_at;
};
RawSection read_section(ByteCursor& cursor);

// A reader shows sections of known kinds, and of builtins those that it knows.
bool is_shown(const RawSection& section);

// Reads the records of one file. Immutable, so safe to share between threads.
class RecordDecoder {
 public:
  explicit RecordDecoder(const Schema& schema);

  // What the schema promises; FieldView::declaration counts in here.
  const MoleculeSchema& declared() const { return declared_; }

  // The least bytes that a record of n atoms takes.
  uint64_t min_bytes(uint64_t n_atoms) const;

  // Hands geometry and fields to the visitor. Damage to one custom value is handed on as that field's fault; all
  // other damage throws CorruptFileError. Offsets count from the record's start.
  void visit(Bytes record, uint64_t indexed_atoms, MoleculeVisitor& visitor) const;

 private:
  // A declared section as its header lies in a record: kind, key length, key, tag.
  struct Expected {
    std::string header;
    FieldView view;
    uint64_t payload_bytes;  // for each atom or in all
    bool any_length;         // the payload itself must be looked at
  };

  void visit_section(ByteCursor& cursor, Bytes record, uint64_t n_atoms, size_t& guess, MoleculeVisitor& visitor) const;
  const Expected* match(Bytes rest, size_t& guess) const;
  void visit_unexpected(ByteCursor& cursor, uint64_t n_atoms, MoleculeVisitor& visitor) const;
  size_t find(Scope scope, std::string_view key) const;

  MoleculeSchema declared_;
  std::vector<SchemaEntry> entries_;  // sorted by (scope, key)
  std::vector<Expected> expected_;    // one an entry
};

}  // namespace atompack::atp
