// Reader of one generation of one .atp file.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "formats/atp/header.h"
#include "formats/atp/index.h"
#include "formats/atp/record.h"
#include "io/open_file.h"
#include "model/molecule_source.h"

namespace atompack::atp {

struct ReadOptions {
  io::Access access = io::Access::automatic;
  bool populate = false;
};

// The file stays mapped, or open if it is read by pread (Access::read): records are then views that are valid until the
// thread reads the next one. Opening reads only the schema (files without one are scanned once). Thread-safe: immutable
// after construction.
class Reader final : public MoleculeSource {
 public:
  // Throws IoError (ESTALE) if the file at the path is not the one of the snapshot.
  Reader(const io::Location& location, const Snapshot& snapshot, const ReadOptions& options);

  int64_t size() const override { return static_cast<int64_t>(header_.n_molecules); }
  std::span<const MoleculeSchema> schemas() const override { return {&schema_, 1}; }
  int32_t schema_of(int64_t) const override { return 0; }
  void prepare(std::span<const int64_t> indices) const override;
  int64_t window() const override { return file_->window(); }
  void announce(std::span<const int64_t> indices) const override;
  MoleculeExtent extent(int64_t index) const override;
  void prefetch(int64_t index) const override;
  bool needs_scratch(int64_t) const override { return !file_->is_mapped() || header_.codec != codec::Codec::none; }
  Bytes decode(int64_t index, std::span<std::byte> scratch) const override;
  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const override;
  void locate(DataError& error, int64_t index) const override;

  const std::string& path() const { return path_; }
  const Header& header() const { return header_; }
  const Schema& stored_schema() const { return stored_schema_; }
  // The record as stored; extent() has checked its range.
  Bytes stored(int64_t index) const { return stored(entry(index)); }

 private:
  IndexEntry entry(int64_t index) const;
  uint64_t entry_offset(int64_t index) const;
  std::vector<io::ByteRange> record_ranges(std::span<const int64_t> indices) const;
  void announce_entries(std::span<const int64_t> indices) const;
  Bytes stored(const IndexEntry& entry) const;
  Schema load_schema() const;
  uint64_t bound_of(const IndexEntry& entry) const;
  void name_place(DataError& error, int64_t index) const;
  void check_overlap() const;
  void check_slots() const;
  uint64_t sound_bytes(int64_t index) const;

  std::string path_;
  Header header_;
  std::unique_ptr<const io::ByteSource> file_;
  Schema stored_schema_;
  std::unique_ptr<const RecordDecoder> decoder_;
  MoleculeSchema schema_;
  // Blocks of the index that were announced: their numbers + 1, each at its number modulo the size.
  mutable std::vector<std::atomic<uint64_t>> announced_;
};

// Opens the file of the snapshot: IoError (ESTALE) if a different file is at its path, CorruptFileError if it shrank.
std::shared_ptr<const io::OpenFile> open_snapshot(const io::Location& location, const Snapshot& snapshot);

// Calls use(entry) for each entry of the index, in order.
template <typename Use>
void for_each_entry(const io::ByteSource& file, const Header& header, Use use) {
  constexpr uint64_t kAhead = uint64_t{1} << 20;
  io::RangeBuffer buffer;
  uint64_t at = header.index_offset + IndexEntry::kFirstAt;
  for (uint64_t i = 0; i < header.n_molecules; ++i, at += IndexEntry::kEncodedSize) {
    use(IndexEntry::decode(file.bytes(at, IndexEntry::kEncodedSize, buffer, kAhead).data()));
  }
}

// Reads the atom counts from the index, without reading a record; `out` has size() elements.
void read_atom_counts(const io::Location& location, const Snapshot& snapshot, std::span<int64_t> out);

}  // namespace atompack::atp
