// Frames of an extended XYZ file as molecules, parsed when they are read.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "formats/parsed/field_map.h"
#include "formats/parsed/index.h"
#include "io/open_file.h"
#include "model/molecule_source.h"

namespace atompack::extxyz {

// Properties of a frame that conversions report. none: a value None; six_numbers: a stress of six numbers.
enum class Remark : uint8_t { plain_comment, unnamed_words, text_of_atoms, none, six_numbers };

constexpr Names<5> names_of(Remark) {
  return {"remark", {"plain comment", "unnamed words", "text of atoms", "none", "six numbers"}};
}

// Molecules of each remark about a key, or about a frame as a whole. Thread-safe.
class Remarks {
 public:
  using Found = std::map<std::pair<Remark, std::string>, std::vector<int64_t>>;

  void add(Remark remark, const std::string& key, int64_t index) {
    const std::scoped_lock lock(mutex_);
    found_[{remark, key}].push_back(index);
  }
  Found take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(found_, {});
  }

 private:
  std::mutex mutex_;
  Found found_;
};

struct FrameOptions {
  io::Access access = io::Access::automatic;
  bool populate = false;
  std::shared_ptr<Remarks> remarks;  // of all frames that are read; nullptr: of no interest
};

// Values are those that a conversion to .atp gives: positions and labels are float64, `pbc` is always present.
// Thread-safe: immutable after construction.
class FrameSource final : public MoleculeSource {
 public:
  // Errors name the file `name`: the file may be an unpacked copy. Throws IoError (ESTALE) if the file has not the size
  // and the time of `version`.
  FrameSource(const io::Location& location, std::string name, const io::FileVersion& version,
              std::shared_ptr<const parsed::Index> index, std::shared_ptr<const parsed::FieldMap> fields,
              const FrameOptions& options);

  int64_t size() const override { return static_cast<int64_t>(index_->entries.size()); }
  std::span<const MoleculeSchema> schemas() const override { return {&fields_->schema(), 1}; }
  int32_t schema_of(int64_t) const override { return 0; }
  void prepare(std::span<const int64_t> indices) const override;
  int64_t window() const override { return file_->window(); }
  void announce(std::span<const int64_t> indices) const override;
  MoleculeExtent extent(int64_t index) const override;
  bool needs_scratch(int64_t) const override { return true; }
  Bytes decode(int64_t index, std::span<std::byte> scratch) const override;
  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const override;
  void locate(DataError& error, int64_t index) const override { error.in_file(name_).at_molecule(index); }

 private:
  const parsed::IndexEntry& entry(int64_t index) const { return index_->entries[static_cast<size_t>(index)]; }
  Bytes parse(int64_t index, std::span<std::byte> scratch) const;

  std::string name_;
  std::shared_ptr<const parsed::Index> index_;
  std::shared_ptr<const parsed::FieldMap> fields_;
  std::shared_ptr<Remarks> remarks_;
  std::unique_ptr<const io::ByteSource> file_;
};

}  // namespace atompack::extxyz
