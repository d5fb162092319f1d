#include "physics/neighbors/pair_pool.h"

#include <array>
#include <mutex>

namespace atompack::physics {
namespace {

// Keeps lists for the next batch. Thread-safe and never blocks: if another thread holds the lock (for ever, in the
// child of a fork during a call), lists are allocated and freed instead.
class PairPool {
 public:
  // Never destroyed: the last batch may be made during the destruction of static objects.
  static PairPool& instance() {
    static PairPool& pool = *new PairPool;
    return pool;
  }

  PooledPairs take() {
    {
      const std::unique_lock lock(mutex_, std::try_to_lock);
      if (lock && n_ > 0) return PooledPairs(lists_[--n_].release());
    }
    return PooledPairs(new PairList);
  }

  void give_back(std::unique_ptr<PairList> pairs) {
    pairs->clear();
    if (idle_bytes(*pairs) > kMaxIdleBytes) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock && n_ < lists_.size()) lists_[n_++] = std::move(pairs);
  }

 private:
  static constexpr size_t kMaxIdleBytes = size_t{8} << 20;
  static size_t idle_bytes(const PairList& pairs) {
    return (pairs.i.capacity() + pairs.j.capacity()) * sizeof(uint32_t) + pairs.ends.capacity() * sizeof(size_t) +
           pairs.shifts.capacity() * sizeof(Shift) + pairs.vectors.capacity() * sizeof(Vector);
  }

  std::mutex mutex_;
  std::array<std::unique_ptr<PairList>, 16> lists_;
  size_t n_ = 0;
};

}  // namespace

void GiveBackPairs::operator()(PairList* pairs) const noexcept {
  PairPool::instance().give_back(std::unique_ptr<PairList>(pairs));
}

PooledPairs take_pairs() { return PairPool::instance().take(); }

}  // namespace atompack::physics
