// Molecules of files of text, parsed when they are read.
#pragma once

#include <memory>
#include <string>

#include "formats/parsed/field_map.h"
#include "formats/parsed/index.h"
#include "io/open_file.h"
#include "model/molecule_source.h"

namespace atompack::parsed {

// Molecules as parsed records. Values are those that a conversion to .atp gives: positions and labels are float64.
class RecordSource : public MoleculeSource {
 public:
  std::span<const MoleculeSchema> schemas() const final { return {&fields_->schema(), 1}; }
  int32_t schema_of(int64_t) const final { return 0; }
  bool needs_scratch(int64_t) const final { return true; }
  Bytes decode(int64_t index, std::span<std::byte> scratch) const final;
  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const final;

 protected:
  explicit RecordSource(std::shared_ptr<const FieldMap> fields) : fields_(std::move(fields)) {}
  const FieldMap& fields() const { return *fields_; }
  // Builds the record in the scratch. Errors are located by decode().
  virtual Bytes parse(int64_t index, std::span<std::byte> scratch) const = 0;

 private:
  std::shared_ptr<const FieldMap> fields_;
};

// Molecules of a file with an index. Thread-safe: immutable after construction.
class IndexedSource : public RecordSource {
 public:
  int64_t size() const final { return static_cast<int64_t>(index_->entries.size()); }
  void prepare(std::span<const int64_t> indices) const override;
  int64_t window() const final { return bytes().window(); }
  void announce(std::span<const int64_t> indices) const final;
  MoleculeExtent extent(int64_t index) const final;
  void locate(DataError& error, int64_t index) const final { error.in_file(name_).at_molecule(index); }

 protected:
  // Errors name the file `name`. `work_of_byte`: bytes that could be copied while one byte of the file is parsed.
  IndexedSource(std::string name, std::shared_ptr<const Index> index, std::shared_ptr<const FieldMap> fields,
                int64_t work_of_byte)
      : RecordSource(std::move(fields)),
        name_(std::move(name)),
        index_(std::move(index)),
        work_of_byte_(work_of_byte) {}

  const IndexEntry& entry(int64_t index) const { return index_->entries[static_cast<size_t>(index)]; }
  virtual const io::ByteSource& bytes() const = 0;

 private:
  void sample(std::span<const int64_t> indices) const;
  std::vector<io::ByteRange> ranges_of(std::span<const int64_t> indices) const;

  std::string name_;
  std::shared_ptr<const Index> index_;
  int64_t work_of_byte_;
};

// Throws IoError (ESTALE) if the file has not the size and the time of `version`.
std::shared_ptr<const io::OpenFile> open_unchanged(const io::Location& location, const io::FileVersion& version,
                                                   const std::string& name);

}  // namespace atompack::parsed
