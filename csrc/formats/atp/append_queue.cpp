#include "formats/atp/append_queue.h"

#include <algorithm>

namespace atompack::atp {
namespace {

// Large enough to justify a system call and waking a thread, small enough to stay in the cache between the copy into it
// and the copy out of it.
constexpr size_t kBlockBytes = 512 * 1024;
constexpr size_t kKeptBytes = 8 * kBlockBytes;  // maximum capacity of a buffer that is reused

}  // namespace

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

}  // namespace atompack::atp
