// The schema of records that exist already: found by looking at them.
#pragma once

#include "formats/atp/encoder.h"
#include "formats/atp/reader.h"

namespace atompack::atp {

// Adds the sections of records to a file's rules.
class SectionCollector {
 public:
  // `rules` is to be those of the file that the records go to. Throws FieldError if that holds other positions.
  SectionCollector(const Reader& from, RecordRules& rules);

  // Throws FieldError if a section is not like those before, CorruptFileError if the record or a value is damaged.
  void collect(int64_t index, Bytes record);

  // Puts what was collected into the rules.
  void join();

 private:
  class Visitor;
  void add(const SchemaEntry& entry);
  void collect_undeclared(Bytes record);

  const Reader& from_;
  RecordRules& rules_;
  SchemaUnion known_;
  std::vector<bool> seen_;  // of the other file's declarations
};

// The rules of a file that has records and no schema (release 0.2.x). Throws FieldError if its records disagree.
RecordRules derive_rules(const Reader& reader);

}  // namespace atompack::atp
