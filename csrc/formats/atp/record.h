// Decoder of records: geometry, then sections; FORMAT.md#record.
#pragma once

#include <string>
#include <vector>

#include "formats/atp/schema.h"
#include "model/molecule_source.h"

namespace atompack::atp {

// A section as stored in a record.
struct RawSection {
  uint8_t kind, tag;
  std::string_view key;
  Bytes payload;
  uint64_t start, payload_at;
};
RawSection read_section(ByteCursor& cursor);

// Header of a section: kind, key length, key, tag.
std::string section_header(const SchemaEntry& entry);

// True for sections that readers return: those of known kinds, and known builtin fields.
bool is_visible(const RawSection& section);

// Reads the records of one file. Immutable, so safe to share between threads.
class RecordDecoder {
 public:
  explicit RecordDecoder(const Schema& schema);

  // Fields declared by the schema, by scope and key; FieldView::declaration is an index into these.
  const MoleculeSchema& declared() const { return declared_; }

  // The minimum size of a record of n atoms.
  uint64_t min_bytes(uint64_t n_atoms) const;

  // Passes geometry and fields to the visitor. Damage to one custom value is passed on as that field's fault; all other
  // damage throws CorruptFileError. Offsets count from the start of the record.
  void visit(Bytes record, uint64_t indexed_atoms, MoleculeVisitor& visitor) const;

 private:
  // A declared section with its header.
  struct Expected {
    std::string header;
    FieldView view;
    uint64_t payload_bytes;  // per atom or in total
    bool any_length;         // depends on the payload
  };

  void visit_section(ByteCursor& cursor, Bytes record, uint64_t n_atoms, size_t& guess, MoleculeVisitor& visitor) const;
  const Expected* match(Bytes rest, size_t& guess) const;
  void visit_unexpected(ByteCursor& cursor, uint64_t n_atoms, MoleculeVisitor& visitor) const;
  size_t find(Scope scope, std::string_view key) const;

  MoleculeSchema declared_;
  std::vector<SchemaEntry> entries_;  // sorted by (scope, key)
  std::vector<Expected> expected_;    // one per entry
};

}  // namespace atompack::atp
