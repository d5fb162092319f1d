#include "physics/neighbors/pair_pool.h"

#include <array>
#include <mutex>

#include "physics/neighbors/neighbors.h"

namespace atompack::physics {
namespace {

size_t memory_of(const PairList& pairs) {
  return (pairs.i.capacity() + pairs.j.capacity()) * sizeof(uint32_t) + pairs.ends.capacity() * sizeof(size_t) +
         pairs.shifts.capacity() * sizeof(Shift) + pairs.vectors.capacity() * sizeof(Vector);
}

size_t memory_of(const Column<uint32_t>& column) { return column.capacity() * sizeof(uint32_t); }

size_t memory_of(const PlacesNear& near) {
  return (near.counts.capacity() + near.places.capacity()) * sizeof(uint32_t);
}

// Keeps lists for the next batch. Thread-safe and never blocks: if another thread holds the lock (for ever, in the
// child of a fork during a call), lists are allocated and freed instead.
template <typename T>
class Pool {
 public:
  // Never destroyed: the last batch may be made during the destruction of static objects.
  static Pool& instance() {
    static Pool& pool = *new Pool;
    return pool;
  }

  Pooled<T> take() {
    {
      const std::unique_lock lock(mutex_, std::try_to_lock);
      if (lock && n_ > 0) {
        T* const list = lists_[--n_].release();
        idle_bytes_ -= memory_of(*list);
        return Pooled<T>(list);
      }
    }
    return Pooled<T>(new T);
  }

  void give_back(std::unique_ptr<T> list) {
    list->clear();
    const size_t bytes = memory_of(*list);
    if (bytes > kMaxBytes) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || n_ == lists_.size() || idle_bytes_ + bytes > kMaxIdleBytes) return;
    lists_[n_++] = std::move(list);
    idle_bytes_ += bytes;
  }

 private:
  static constexpr size_t kMaxBytes = size_t{8} << 20, kMaxIdleBytes = size_t{64} << 20;

  std::mutex mutex_;
  std::array<std::unique_ptr<T>, 64> lists_;
  size_t n_ = 0, idle_bytes_ = 0;
};

}  // namespace

template <typename T>
void GiveBack<T>::operator()(T* list) const noexcept {
  Pool<T>::instance().give_back(std::unique_ptr<T>(list));
}

template <typename T>
Pooled<T> take_from_pool() {
  return Pool<T>::instance().take();
}

template struct GiveBack<PairList>;
template struct GiveBack<PlacesNear>;
template struct GiveBack<Column<uint32_t>>;
template Pooled<PairList> take_from_pool();
template Pooled<PlacesNear> take_from_pool();
template Pooled<Column<uint32_t>> take_from_pool();

}  // namespace atompack::physics
