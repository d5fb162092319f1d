#include "formats/atp/append_queue.h"

#include <algorithm>
#include <utility>

namespace atompack::atp {
namespace {

// Large enough to be worth a system call and a turn of a thread, small enough to stay in the cache between the copy
// into it and the one out of it.
constexpr size_t kBlockBytes = 512 * 1024;
constexpr size_t kKeptBytes = 8 * kBlockBytes;  // of a buffer that is used again

}  // namespace

AppendQueue::AppendQueue(io::WritableFile& file, codec::Codec codec, int level, uint64_t end, unsigned n_threads)
    : file_(file), codec_(codec), level_(level), n_threads_(std::max(n_threads, 1U)), end_(end) {}

AppendQueue::~AppendQueue() { stop_threads(); }

void AppendQueue::stop_threads() {
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::byte* AppendQueue::add(uint32_t record_bytes, uint32_t n_atoms) {
  const bool as_stored = codec_ == codec::Codec::none;
  Block& block = open_block(record_bytes, as_stored ? Stage::coded : Stage::added);
  std::byte* const room = (as_stored ? block.out : block.in).extend(record_bytes, kBlockBytes);
  block.records.push_back({record_bytes, record_bytes, n_atoms});
  ++n_added_;
  return room;
}

void AppendQueue::add_stored(Bytes stored, uint32_t record_bytes, uint32_t n_atoms) {
  Block& block = open_block(stored.size(), Stage::coded);
  store(block.out.extend(stored.size(), kBlockBytes), stored);
  block.records.push_back({record_bytes, static_cast<uint32_t>(stored.size()), n_atoms});
  ++n_added_;
}

AppendQueue::Block& AppendQueue::open_block(size_t room, Stage stage) {
  const auto held = [&] { return (stage == Stage::coded ? open_->out : open_->in).size(); };
  if (open_ && (open_->stage != stage || (held() > 0 && held() + room > kBlockBytes))) push();
  if (!open_) {
    const Lock lock(mutex_);
    if (spare_.empty()) {
      open_ = std::make_unique<Block>();
    } else {
      open_ = std::move(spare_.back());
      spare_.pop_back();
    }
    open_->stage = stage;
    open_->first = n_added_;
    open_->in.shrink(0);
    open_->out.shrink(0);
    open_->records.clear();
  }
  return *open_;
}

// Throws, and keeps the block open, if the queue has failed.
void AppendQueue::push() {
  Lock lock(mutex_);
  const size_t most = (2 * n_threads_ + 2) * kBlockBytes;
  changed_.wait(lock, [&] { return failure_ || blocks_.empty() || held_bytes() < most; });
  throw_failure();
  if (threads_.size() < n_threads_) threads_.emplace_back([this] { work(); });
  open_->held_bytes = open_->in.size() + open_->out.size();
  blocks_.push_back(std::move(open_));
  changed_.notify_all();
}

size_t AppendQueue::held_bytes() const {
  size_t bytes = 0;
  for (const auto& block : blocks_) bytes += block->held_bytes;
  return bytes;
}

void AppendQueue::drain() {
  if (open_ && !open_->records.empty()) push();
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || blocks_.empty(); });
  throw_failure();
}

void AppendQueue::throw_failure() {
  if (failure_) std::rethrow_exception(failure_);
}

void AppendQueue::resume() {
  const Lock lock(mutex_);
  failure_ = nullptr;
  changed_.notify_all();
}

void AppendQueue::work() {
  Lock lock(mutex_);
  for (;;) {
    Block* block = nullptr;
    changed_.wait(lock, [&] { return stop_ || (!failure_ && (can_write() || (block = next_to_code()) != nullptr)); });
    if (stop_) return;
    if (block == nullptr) {
      write_front(lock);
      continue;
    }
    block->stage = Stage::being_coded;
    ++n_coding_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      code(*block);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    --n_coding_;
    block->stage = failure ? Stage::added : Stage::coded;
    if (failure) {
      block->out.shrink(0);
      failure_ = failure;
    }
    changed_.notify_all();
  }
}

AppendQueue::Block* AppendQueue::next_to_code() {
  const auto found = std::ranges::find(blocks_, Stage::added, [](const auto& block) { return block->stage; });
  return found == blocks_.end() ? nullptr : found->get();
}

bool AppendQueue::can_write() const { return !writing_ && !blocks_.empty() && blocks_.front()->stage == Stage::coded; }

void AppendQueue::code(Block& block) const {
  block.out.shrink(0);
  const std::byte* record = block.in.data();
  for (Record& known : block.records) {
    const size_t most = codec::compressed_bound(codec_, known.record_bytes);
    std::byte* const room = block.out.extend(most, kBlockBytes);
    const size_t stored = codec::compress(codec_, level_, {record, known.record_bytes}, {room, most});
    known.stored_bytes = static_cast<uint32_t>(stored);
    block.out.shrink(block.out.size() - (most - stored));
    record += known.record_bytes;
  }
}

void AppendQueue::write_front(Lock& lock) {
  Block& block = *blocks_.front();
  const uint64_t end = end_;
  writing_ = true;
  lock.unlock();
  std::exception_ptr failure;
  try {
    file_.write_at(end, block.out.bytes());
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  writing_ = false;
  if (failure) {
    failure_ = failure;
  } else {
    for (const Record& record : block.records) {
      entries_.push_back({end_, record.stored_bytes, record.record_bytes, record.n_atoms});
      end_ += record.stored_bytes;
    }
    const bool keep = std::max(block.in.capacity(), block.out.capacity()) <= kKeptBytes;
    if (keep) spare_.push_back(std::move(blocks_.front()));
    blocks_.pop_front();
  }
  changed_.notify_all();
}

void AppendQueue::cut(Block& block, uint64_t n_records) {
  for (uint64_t i = n_records; i < block.records.size(); ++i) {
    if (block.in.size() > 0) block.in.shrink(block.in.size() - block.records[i].record_bytes);
    if (block.out.size() > 0) block.out.shrink(block.out.size() - block.records[i].stored_bytes);
  }
  block.records.resize(n_records);
}

void AppendQueue::roll_back(uint64_t size) {
  if (size >= n_added_) return;
  const auto keep = [&](Block& block) {  // whether anything of it is left
    if (block.first + block.records.size() > size) cut(block, size > block.first ? size - block.first : 0);
    return !block.records.empty();
  };
  if (open_ && !keep(*open_)) open_.reset();
  Lock lock(mutex_);
  // As after a failure, so that nothing is begun while those under way finish.
  const std::exception_ptr before = failure_;
  failure_ = std::make_exception_ptr(InternalError("rolling back"));
  changed_.wait(lock, [&] { return n_coding_ == 0 && !writing_; });
  failure_ = before;
  while (!blocks_.empty() && !keep(*blocks_.back())) blocks_.pop_back();
  if (size < entries_.size()) {
    end_ = entries_[size].offset;
    entries_.resize(size);
  }
  n_added_ = size;
  changed_.notify_all();
}

void AppendQueue::restart(uint64_t end) {
  open_.reset();
  const Lock lock(mutex_);
  entries_.clear();
  end_ = end;
  n_added_ = 0;
}

}  // namespace atompack::atp
