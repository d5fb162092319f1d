#include "formats/atp/reader.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace atompack::atp {
namespace {

constexpr size_t kMaxSample = 8;                       // records by which a file is found to be in memory
constexpr uint64_t kIndexBlock = uint64_t{256} << 10;  // of the index, read ahead as a whole
constexpr uint64_t kMaxAnnouncedBlocks = 4096;         // that are remembered: an index of 1 GiB

// The inode number of a replaced file may be reused. Generations of a file only increase, and each generation has one
// header.
bool may_hold(const io::OpenFile& file, const Header& header) {
  std::array<std::byte, 2 * Header::kEncodedSize> slots{};
  const size_t got = file.read_at(0, slots);
  const uint64_t size = file.size();
  if (size < header.committed_end()) return true;  // truncated, which reading reports
  try {
    const Header now = choose_header(Bytes(slots).first(got), size);
    return now.generation > header.generation ||
           (now.generation == header.generation && now.encode() == header.encode());
  } catch (const DataError&) {
    return true;  // damaged since; the snapshot still describes the file
  }
}

}  // namespace

std::shared_ptr<const io::OpenFile> open_snapshot(const io::Location& location, const Snapshot& snapshot) {
  auto file = io::open_file(location);
  const io::FileIdentity now = file->identity();
  if (!now.same_file(snapshot.identity) || !may_hold(*file, snapshot.header)) {
    throw IoError(ESTALE, "the file was replaced since it was opened; refresh() opens the new one", file->path());
  }
  if (const uint64_t end = snapshot.header.committed_end(); now.size < end) {
    throw CorruptFileError(cat("the file shrank while it was open: expected ", end, " bytes, got ", now.size))
        .in_file(file->path());
  }
  return file;
}

Reader::Reader(const io::Location& location, const Snapshot& snapshot, const ReadOptions& options)
    : path_(location.path()),
      header_(snapshot.header),
      announced_(std::min(kMaxAnnouncedBlocks, header_.index_length / kIndexBlock + 2)) {
  file_ = open_snapshot(location, snapshot)->bytes(header_.committed_end(), options.access, options.populate);
  in_file(path_, [&] {
    stored_schema_ = load_schema();
    decoder_ = std::make_unique<RecordDecoder>(stored_schema_);
    schema_ = decoder_->declared();
    if (!stored_schema_.is_stored) {
      check_overlap();
      schema_.fields = scan_fields(*this);
    }
    check_slots();
  });
}

Schema Reader::load_schema() const { return read_schema(*file_, header_); }

void Reader::prepare(std::span<const int64_t> indices) const {
  file_->check_not_shrunk();
  if (file_->is_sample_due()) file_->sample(record_ranges(indices.first(std::min(indices.size(), kMaxSample))));
}

void Reader::announce(std::span<const int64_t> indices) const {
  const auto is_of_use = [&] { return file_->window() > 0; };
  const auto is_absent = [&] { return file_->window() > 1; };
  if (!is_of_use()) return;
  file_->check_not_shrunk();  // entries are read from the mapping
  if (is_absent()) announce_entries(indices);
  file_->sample(record_ranges(indices.first(std::min(indices.size(), kMaxSample))));
  if (!is_of_use()) return;
  announce_entries(indices);
  file_->announce(record_ranges(indices));
}

// Pages of a mapping are announced each time, because the kernel may have dropped them. Others are read in blocks, and
// once: entries are small, all of them are read in an epoch, and a remote store takes long for each request.
void Reader::announce_entries(std::span<const int64_t> indices) const {
  if (file_->is_mapped()) {
    std::vector<io::ByteRange> entries(indices.size());
    std::ranges::transform(indices, entries.begin(),
                           [&](int64_t index) { return io::ByteRange{entry_offset(index), IndexEntry::kEncodedSize}; });
    return file_->announce(entries);
  }
  std::vector<io::ByteRange> blocks;
  for (const int64_t index : indices) {
    const uint64_t offset = entry_offset(index);
    for (const uint64_t block : {offset / kIndexBlock, (offset + IndexEntry::kEncodedSize - 1) / kIndexBlock}) {
      std::atomic<uint64_t>& last = announced_[block % announced_.size()];
      if (last.load(std::memory_order_relaxed) != block + 1 && last.exchange(block + 1) != block + 1) {
        blocks.push_back({block * kIndexBlock, kIndexBlock});
      }
    }
  }
  if (!blocks.empty()) file_->announce(blocks);
}

// Records whose entries are damaged are omitted; reading them reports the error.
std::vector<io::ByteRange> Reader::record_ranges(std::span<const int64_t> indices) const {
  std::vector<io::ByteRange> ranges;
  ranges.reserve(indices.size());
  for (const int64_t index : indices) {
    const IndexEntry found = entry(index);
    if (!found.is_between(header_.data_start, header_.committed_end())) continue;
    ranges.push_back({found.offset, found.stored_bytes});
  }
  return ranges;
}

Bytes Reader::stored(const IndexEntry& entry) const {
  return file_->bytes(entry.offset, entry.stored_bytes, []() -> io::RangeBuffer& {
    thread_local io::RangeBuffer buffer;
    return buffer;
  });
}

// Records do not overlap; if they did, reading all of them could take time quadratic in the file size. Twice the file's
// bytes leaves room for a damaged entry.
void Reader::check_overlap() const {
  const uint64_t limit = 2 * (header_.committed_end() - header_.data_start);
  uint64_t stored = 0;
  for (int64_t i = 0; i < size(); ++i) {
    const IndexEntry found = entry(i);
    if (found.is_between(header_.data_start, header_.committed_end())) stored += found.stored_bytes;
    if (stored > limit)
      throw CorruptFileError("index: expected separate records, got overlapping ones", header_.index_offset);
  }
}

// Absent values take memory in a batch, so large slots must be justified: each by a record that can hold it, all
// together by the sum of the records.
void Reader::check_slots() const {
  constexpr uint64_t kSmall = 64 * 1024;
  uint64_t total = 0;
  uint64_t largest = 0;
  std::string key;
  for (const SchemaEntry& entry : stored_schema_.entries) {
    const uint64_t bytes = entry.slot_bytes.value_or(0);
    total += bytes;
    if (bytes <= largest) continue;
    largest = bytes;
    key = entry.key;
  }
  if (total <= kSmall) return;
  check_overlap();
  uint64_t held = 0;
  uint64_t longest = 0;
  for (int64_t i = 0; i < size(); ++i) {
    const uint64_t bytes = sound_bytes(i);
    held += bytes;
    longest = std::max(longest, bytes);
    if (longest > largest && held > total) return;
  }
  if (longest > largest) throw_corrupt("schema slot bytes: all records hold ", held, ", got ", total, " in all");
  throw CorruptFileError(cat("schema slot bytes: the longest record holds ", longest, ", got ", largest)).at_field(key);
}

// Decoded size of a record; 0 if its entry is damaged, since no batch can include it.
uint64_t Reader::sound_bytes(int64_t index) const {
  try {
    return static_cast<uint64_t>(extent(index).decoded_bytes);
  } catch (const DataError&) {
    return 0;
  }
}

IndexEntry Reader::entry(int64_t index) const {
  constexpr uint64_t kMaxAhead = 4096;
  const auto buffer = []() -> io::RangeBuffer& {
    thread_local io::RangeBuffer entries;
    return entries;
  };
  const uint64_t at = entry_offset(index);
  const uint64_t ahead = std::min(kMaxAhead, kIndexBlock - at % kIndexBlock);  // not beyond what was announced
  return IndexEntry::decode(file_->bytes(at, IndexEntry::kEncodedSize, buffer, ahead).data());
}

// The entry is inside of the file: the header's ranges agree with its count.
uint64_t Reader::entry_offset(int64_t index) const {
  return header_.index_offset + IndexEntry::kFirstAt + static_cast<uint64_t>(index) * IndexEntry::kEncodedSize;
}

MoleculeExtent Reader::extent(int64_t index) const {
  const IndexEntry found = entry(index);
  const auto add_place = [&](DataError& error) { name_place(error, index); };
  with_context(add_place, [&] {
    found.validate(header_.data_start, header_.committed_end());
    const uint64_t bound = bound_of(found);
    if (found.decoded_bytes > bound || (header_.codec == codec::Codec::none && found.decoded_bytes != bound)) {
      throw_corrupt("index entry: ", found.stored_bytes, " stored bytes (", name_of(header_.codec), ") hold at most ",
                    bound, ", got an uncompressed size of ", found.decoded_bytes);
    }
    if (const uint64_t needed = decoder_->min_bytes(found.n_atoms); needed > found.decoded_bytes) {
      throw_corrupt("index entry: a record of ", found.n_atoms, " atoms takes at least ", needed, " bytes, got ",
                    found.decoded_bytes);
    }
  });
  return {found.n_atoms, found.decoded_bytes, found.decoded_bytes * codec::work_factor(header_.codec)};
}

void Reader::prefetch(int64_t index) const {
  if (!file_->is_mapped()) return;
  const IndexEntry found = entry(index);
  if (!found.is_between(header_.data_start, header_.committed_end())) return;
  file_->prefetch(found.offset, found.stored_bytes);
}

uint64_t Reader::bound_of(const IndexEntry& entry) const {
  return shift_offset(entry.offset, "", [&] { return codec::decoded_bound(header_.codec, stored(entry)); });
}

Bytes Reader::decode(int64_t index, std::span<std::byte> scratch) const {
  const IndexEntry found = entry(index);
  const auto add_place = [&](DataError& error) { name_place(error.at_offset(found.offset), index); };
  return with_context(add_place, [&]() -> Bytes {
    // Checked again since extent(): the mapping shows what others write to the file.
    found.validate(header_.data_start, header_.committed_end());
    if (header_.codec == codec::Codec::none && file_->is_mapped()) return stored(found);
    if (header_.codec == codec::Codec::none) {
      const std::span<std::byte> room = scratch.first(std::min<size_t>(scratch.size(), found.stored_bytes));
      file_->copy(found.offset, room);
      return room;
    }
    codec::decompress(header_.codec, stored(found), scratch);
    return scratch;
  });
}

void Reader::visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const {
  const IndexEntry found = entry(index);
  located(index, [&] { decoder_->visit(record, found.n_atoms, visitor); });
}

void Reader::locate(DataError& error, int64_t index) const {
  const bool mapped = header_.codec == codec::Codec::none;
  name_place(error.shift_offset(mapped ? entry(index).offset : 0, mapped ? "" : " of the decompressed record"), index);
}

void Reader::name_place(DataError& error, int64_t index) const { error.at_molecule(index).in_file(path_); }

void read_atom_counts(const io::Location& location, const Snapshot& snapshot, std::span<int64_t> out) {
  const Header& header = snapshot.header;
  if (out.size() != header.n_molecules) throw InternalError("atom counts of another number of molecules");
  if (header.n_molecules == 0) return;
  const io::FileRanges file(open_snapshot(location, snapshot), header.committed_end());
  for_each_entry(file, header, [&, next = size_t{0}](const IndexEntry& entry) mutable { out[next++] = entry.n_atoms; });
}

}  // namespace atompack::atp
