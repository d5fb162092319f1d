#include "formats/atp/writer.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include "formats/atp/reader.h"

namespace atompack::atp {

// Large enough to justify a system call and waking a thread, small enough to stay in the cache between the copy into it
// and the copy out of it.
constexpr size_t kBlockBytes = 512 * 1024;
constexpr size_t kKeptBytes = 8 * kBlockBytes;  // maximum capacity of a buffer that is reused

AppendQueue::AppendQueue(io::WritableFile& file, codec::Codec codec, int level, uint64_t end, unsigned n_threads)
    : file_(file),
      codec_(codec),
      level_(level),
      end_(end),
      pipeline_(
          n_threads, [this](Block& block) { compress(block); }, [this](Block& block) { append(block); },
          (2 * n_threads + 3) * kBlockBytes) {}

std::byte* AppendQueue::add(uint32_t record_bytes, uint32_t n_atoms) {
  const bool is_coded = codec_ == codec::Codec::none;
  Block& block = open_block(record_bytes, is_coded);
  std::byte* const room = (is_coded ? block.out : block.in).extend(record_bytes, kBlockBytes);
  block.records.push_back({record_bytes, record_bytes, n_atoms});
  ++n_added_;
  return room;
}

void AppendQueue::add_stored(Bytes stored, uint32_t record_bytes, uint32_t n_atoms) {
  Block& block = open_block(stored.size(), true);
  store(block.out.extend(stored.size(), kBlockBytes), stored);
  block.records.push_back({record_bytes, static_cast<uint32_t>(stored.size()), n_atoms});
  ++n_added_;
}

AppendQueue::Block& AppendQueue::open_block(size_t room, bool is_coded) {
  const size_t bytes = (open_.is_coded ? open_.out : open_.in).size();
  if (!open_.records.empty() && (open_.is_coded != is_coded || (bytes > 0 && bytes + room > kBlockBytes))) push();
  if (open_.records.empty()) {
    open_.is_coded = is_coded;
    open_.first = n_added_;
    open_.in.shrink(0);
    open_.out.shrink(0);
  }
  return open_;
}

// Throws, and keeps the block open, if the queue has failed.
void AppendQueue::push() { pipeline_.push(open_, open_.in.size() + open_.out.size()); }

void AppendQueue::drain() {
  if (!open_.records.empty()) push();
  pipeline_.drain();
}

void AppendQueue::compress(Block& block) const {
  if (block.is_coded) return;
  block.out.shrink(0);
  const std::byte* record = block.in.data();
  for (Record& known : block.records) {
    const size_t max_stored = codec::compressed_bound(codec_, known.record_bytes);
    std::byte* const room = block.out.extend(max_stored, kBlockBytes);
    const size_t stored = codec::compress(codec_, level_, {record, known.record_bytes}, {room, max_stored});
    known.stored_bytes = static_cast<uint32_t>(stored);
    block.out.shrink(block.out.size() - (max_stored - stored));
    record += known.record_bytes;
  }
}

void AppendQueue::append(Block& block) {
  std::vector<IndexEntry> added;
  added.reserve(block.records.size());
  uint64_t end = end_;
  for (const Record& record : block.records) {
    added.push_back({end, record.stored_bytes, record.record_bytes, record.n_atoms});
    end += record.stored_bytes;
  }
  file_.write_at(end_, block.out.bytes());
  entries_.insert(entries_.end(), added.begin(), added.end());
  end_ = end;
  block.records.clear();
  if (std::max(block.in.capacity(), block.out.capacity()) > kKeptBytes) block = Block();
}

void AppendQueue::cut(Block& block, uint64_t n_records) {
  block.records.resize(n_records);
  size_t in = 0, out = 0;
  for (const Record& record : block.records) {
    in += record.record_bytes;
    out += record.stored_bytes;
  }
  block.in.shrink(std::min(block.in.size(), in));
  block.out.shrink(std::min(block.out.size(), out));
}

void AppendQueue::roll_back(uint64_t size) {
  if (size >= n_added_) return;
  const auto keep = [&](Block& block) {  // true if any of its records remains
    if (block.first + block.records.size() > size) cut(block, size > block.first ? size - block.first : 0);
    return !block.records.empty();
  };
  keep(open_);
  pipeline_.drop_newest(keep);
  // Tasks are dropped from the newest on, so if none is left no thread uses the entries.
  if (pipeline_.size() == 0 && size < entries_.size()) {
    end_ = entries_[size].offset;
    entries_.resize(size);
  }
  n_added_ = size;
}

void AppendQueue::restart(uint64_t end) {
  entries_.clear();
  end_ = end;
  n_added_ = 0;
}

namespace {

constexpr uint64_t kLastGeneration = std::numeric_limits<uint64_t>::max();

// A commit takes up to two generations. One that wrapped around to 0 would be older than the last, and ignored.
void check_has_room(uint64_t generation, uint64_t n_needed, const std::string& path) {
  if (generation <= kLastGeneration - n_needed) return;
  throw UnsupportedFormatError(cat("generation: expected at most ", kLastGeneration - n_needed,
                                   " to write another one, got ", generation, ": compact the file into a new one"))
      .in_file(path);
}

}  // namespace

WriterState Writer::create(io::WritableFile& file, codec::Codec codec, int level) {
  Header header;
  header.data_start = 2 * Header::kEncodedSize;
  header.codec = codec;
  header.level = codec == codec::Codec::zstd ? level : 0;
  header.record_format = 2;
  const auto slot = header.encode();
  file.write_at(0, slot);
  file.write_at(Header::kEncodedSize, slot);
  file.sync();
  return {header, 0, {}};
}

Writer::Writer(io::WritableFile& file, WriterState state, int level, unsigned n_threads)
    : file_(file),
      header_(state.header),
      slot_offset_(state.slot_offset),
      rules_(std::move(state.rules)),
      queue_(file, header_.codec, level, header_.committed_end(), n_threads) {
  check_has_room(header_.generation, 2, file_.path());
  if (header_.codec == codec::Codec::zstd) header_.level = level;
}

// Bytes past the committed end are garbage: truncate them before appending.
void Writer::begin() {
  if (sync_failed_) {
    throw IoError(EIO,
                  "an earlier write could not be made durable: open the file again to continue from its last commit",
                  file_.path());
  }
  queue_.resume();
  if (tail_is_cut_) return;
  if (file_.size() > header_.committed_end()) {
    file_.truncate(header_.committed_end());
    file_.sync();
  }
  tail_is_cut_ = true;
}

void Writer::write(std::span<const Columns> runs) {
  begin();
  RecordRules rules = rules_;
  std::vector<Encoder> encoders;
  encoders.reserve(runs.size());
  int64_t n_before = 0;
  for (const Columns& columns : runs) {
    with_context([&](DataError& error) { error.shift_molecule(n_before); },
                 [&] { encoders.emplace_back(columns, header_.codec, rules); });
    n_before += encoders.back().size();
  }
  if (n_before == 0) return;
  rules.is_fixed = true;
  const uint64_t size = queue_.size();
  try {
    for (const Encoder& encoder : encoders) {
      for (int64_t i = 0; i < encoder.size(); ++i) {
        encoder.encode(i, queue_.add(static_cast<uint32_t>(encoder.record_bytes(i)), encoder.n_atoms(i)));
      }
    }
  } catch (...) {
    queue_.roll_back(size);
    throw;
  }
  rules_ = std::move(rules);
}

void Writer::copy(const Reader& from, std::span<const int64_t> indices) {
  begin();
  if (indices.empty()) return;
  RecordRules rules = rules_;
  const bool as_stored = from.header().codec == header_.codec && from.header().level == header_.level;
  const uint64_t size = queue_.size();
  std::vector<std::byte> scratch;
  try {
    SectionCollector sections(from, rules);
    for (const int64_t index : indices) {
      const MoleculeExtent extent = from.extent(index);
      const Bytes record = decode(from, index, extent, scratch);
      sections.collect(index, record);
      const auto bytes = static_cast<uint32_t>(record.size());
      const auto n_atoms = static_cast<uint32_t>(extent.n_atoms);
      if (as_stored) {
        queue_.add_stored(from.stored(index), bytes, n_atoms);
      } else {
        codec::compressed_bound(header_.codec, bytes);  // throws if too large
        store(queue_.add(bytes, n_atoms), record);
      }
    }
    sections.join();
  } catch (...) {
    queue_.roll_back(size);
    throw;
  }
  rules.is_fixed = true;
  rules_ = std::move(rules);
}

void Writer::commit() {
  Header next = next_header();
  begin();
  queue_.drain();
  const uint64_t schema_at = queue_.end();
  if (rules_.is_fixed) {
    rules_.schema.positions = rules_.positions.value_or(DType::float32);
    const std::vector<std::byte> blob = encode_schema(rules_.schema);
    file_.write_at(schema_at, blob);
    next.schema_offset = schema_at;
    next.schema_length = blob.size();
  }
  next.index_offset = schema_at + next.schema_length;
  next.index_length = write_index(next.index_offset);
  sync_failed_ = true;  // in case one of the next steps throws
  file_.sync_data();
  file_.write_at(next.slot_offset(), next.encode());
  file_.sync();
  sync_failed_ = false;
  header_ = next;
  slot_offset_ = next.slot_offset();
  queue_.restart(header_.committed_end());
}

// Never overwrites the slot of the commit that must survive until this one is complete: other programs may have put it
// in the slot where the next generation belongs.
Header Writer::next_header() const {
  Header next = header_;
  check_has_room(header_.generation, 1, file_.path());
  ++next.generation;
  if (next.slot_offset() == slot_offset_) {
    check_has_room(header_.generation, 2, file_.path());
    ++next.generation;
  }
  next.n_molecules = n_molecules();
  next.record_format = rules_.format;
  next.schema_offset = next.schema_length = 0;
  return next;
}

// Entries of the last commit are copied within the file: only new ones take memory.
uint64_t Writer::write_index(uint64_t at) {
  constexpr size_t kChunkBytes = 1024 * 1024;
  const uint64_t start = at;
  std::vector<std::byte> chunk(IndexEntry::kFirstAt);
  store_le(chunk.data(), n_molecules());
  file_.write_at(at, chunk);
  at += chunk.size();

  const uint64_t old_end = header_.index_offset + header_.index_length;
  uint64_t from = header_.index_offset + IndexEntry::kFirstAt;
  while (header_.n_molecules > 0 && from < old_end) {
    chunk.resize(std::min<uint64_t>(kChunkBytes, old_end - from));
    if (file_.read_at(from, chunk) != chunk.size())
      throw CorruptFileError("index: expected all of it, got the end of the file", from);
    file_.write_at(at, chunk);
    from += chunk.size();
    at += chunk.size();
  }

  constexpr size_t kMaxEntries = kChunkBytes / IndexEntry::kEncodedSize;
  const std::vector<IndexEntry>& entries = queue_.entries();
  for (size_t first = 0; first < entries.size(); first += kMaxEntries) {
    const size_t n = std::min(kMaxEntries, entries.size() - first);
    chunk.resize(n * IndexEntry::kEncodedSize);
    for (size_t i = 0; i < n; ++i) entries[first + i].encode(chunk.data() + i * IndexEntry::kEncodedSize);
    file_.write_at(at, chunk);
    at += chunk.size();
  }
  return at - start;
}

}  // namespace atompack::atp
