// Derivation of a schema from existing records.
#pragma once

#include "formats/atp/encoder.h"
#include "formats/atp/reader.h"

namespace atompack::atp {

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
