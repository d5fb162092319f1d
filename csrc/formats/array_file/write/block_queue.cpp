#include "formats/array_file/write/block_queue.h"

#include <algorithm>
#include <limits>

namespace atompack::array_file {
namespace {

constexpr size_t kSpareBlocks = 2;

// In front of an LZ4 block its decoded size is repeated.
size_t prefix_bytes(codec::Codec codec) { return codec == codec::Codec::lz4 ? sizeof(uint32_t) : 0; }

}  // namespace

uint64_t most_block_bytes(codec::Codec codec) {
  constexpr uint64_t kMostOfLz4 = 0x7E000000;
  return codec == codec::Codec::lz4 ? kMostOfLz4 : std::numeric_limits<uint32_t>::max();
}

BlockQueue::BlockQueue(io::NewFile& file, codec::Codec codec, int level, unsigned n_threads)
    : file_(file), codec_(codec), level_(level), n_threads_(n_threads) {}

BlockQueue::~BlockQueue() {
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BlockQueue::push(Buffer& block, uint64_t most_held_bytes) {
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || blocks_.empty() || held_bytes() + block.size() <= most_held_bytes; });
  throw_failure();
  if (threads_.size() < n_threads_) threads_.emplace_back([this] { work(); });
  std::unique_ptr<Block> next = spare_.empty() ? std::make_unique<Block>() : std::move(spare_.back());
  if (!spare_.empty()) spare_.pop_back();
  next->id = n_pushed_;
  next->taken = next->placed = false;
  std::swap(next->in, block);
  block.shrink(0);
  blocks_.push_back(std::move(next));
  ++n_pushed_;
  changed_.notify_all();
}

void BlockQueue::put(Bytes block) {
  Buffer out;
  const Bytes stored = coded(block, out);
  const std::optional<StoredBlock> place = this->place(n_pushed_, stored, block.size());
  if (!place) {
    const Lock lock(mutex_);
    throw_failure();
    throw InternalError("the queue stops");
  }
  try {
    file_.write_at(place->offset, stored);
  } catch (...) {
    const Lock lock(mutex_);
    stored_.pop_back();
    end_ = place->offset;
    throw;
  }
  file_.start_writing_back(place->offset, stored.size());
  ++n_pushed_;
}

void BlockQueue::drain() {
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || blocks_.empty(); });
  throw_failure();
}

void BlockQueue::throw_failure() {
  if (failure_) std::rethrow_exception(failure_);
}

void BlockQueue::resume() {
  const Lock lock(mutex_);
  failure_ = nullptr;
  changed_.notify_all();
}

uint64_t BlockQueue::held_bytes() const {
  uint64_t bytes = 0;
  for (const auto& block : blocks_) bytes += block->in.size();
  return bytes;
}

BlockQueue::Block* BlockQueue::next() {
  const auto found = std::ranges::find(blocks_, false, [](const auto& block) { return block->taken; });
  return found == blocks_.end() ? nullptr : found->get();
}

void BlockQueue::work() {
  Lock lock(mutex_);
  for (;;) {
    Block* block = nullptr;
    changed_.wait(lock, [&] { return stop_ || (!failure_ && (block = next()) != nullptr); });
    if (stop_) return;
    block->taken = true;
    lock.unlock();
    bool is_written = false;
    std::exception_ptr failure;
    try {
      is_written = write(*block);
    } catch (...) {  // for who waits for the queue
      failure = std::current_exception();
    }
    lock.lock();
    if (is_written) {
      finish(*block);
    } else {
      block->taken = false;
      if (!failure_) failure_ = failure;
    }
    changed_.notify_all();
  }
}

// A block that has a place keeps it, and what it was compressed to, should writing fail. False if it has none because
// another one failed: that is told once, by that one.
bool BlockQueue::write(Block& block) {
  const Bytes stored =
      block.placed && codec_ != codec::Codec::none ? block.out.bytes() : coded(block.in.bytes(), block.out);
  if (!block.placed && !place(block.id, stored, block.in.size())) return false;
  block.placed = true;
  uint64_t offset = 0;
  {
    const Lock lock(mutex_);
    offset = stored_[block.id].offset;
  }
  file_.write_at(offset, stored);
  file_.start_writing_back(offset, stored.size());
  return true;
}

// What is stored of a block: in `out`, unless it is stored as it is.
Bytes BlockQueue::coded(Bytes block, Buffer& out) const {
  if (codec_ == codec::Codec::none) return block;
  const size_t prefix = prefix_bytes(codec_), bound = codec::compressed_bound(codec_, block.size());
  out.shrink(0);
  std::byte* const room = out.extend(prefix + bound, 0);
  if (prefix > 0) store_le(room, static_cast<uint32_t>(block.size()));
  out.shrink(prefix + codec::compress(codec_, level_, block, {room + prefix, bound}));
  return out.bytes();
}

// The place behind the block before, once that has one; nothing if the queue stops, or has failed, before.
std::optional<StoredBlock> BlockQueue::place(uint32_t id, Bytes coded, uint64_t decoded_bytes) {
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_ || failure_ || stored_.size() == id; });
  if (failure_ || stop_) return std::nullopt;
  stored_.push_back({end_, coded.size(), decoded_bytes});
  end_ += coded.size();
  changed_.notify_all();
  return stored_.back();
}

void BlockQueue::finish(Block& block) {
  const auto found = std::ranges::find(blocks_, &block, &std::unique_ptr<Block>::get);
  if (spare_.size() < kSpareBlocks) spare_.push_back(std::move(*found));
  blocks_.erase(found);
}

}  // namespace atompack::array_file
