#include "physics/neighbors/pair_list.h"

#include <array>
#include <mutex>

#include "base/checked_math.h"
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

// Keeps lists for the next batch. Thread-safe and never blocks: if another thread holds the lock (forever, in the
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

constexpr std::string_view kCountName = "number of triplets";

// Allowed triplets of a structure: all those of 4096 neighbors of one atom, and of 362 neighbors of every atom.
constexpr uint64_t kMaxTriplets = uint64_t{1} << 23;
constexpr uint64_t kMaxTripletsPerAtom = uint64_t{1} << 16;

void AngularPairs::add_structure(const PairList& list, size_t n_atoms, double cutoff) {
  const uint64_t limit = checked_add(kMaxTriplets, checked_mul(kMaxTripletsPerAtom, n_atoms, kCountName), kCountName);
  uint64_t added = 0;
  size_t pair = list.ends.size() > 1 ? list.ends[list.ends.size() - 2] : 0;
  while (pair < list.size()) {
    const uint32_t center = list.i[pair];
    const size_t first = pairs.size();
    for (; pair < list.size() && list.i[pair] == center; ++pair) {
      const double length = list.vectors[pair].length();
      if (length > 0 && length <= cutoff) pairs.push_back(pair);
    }
    center_ends.push_back(pairs.size());
    const uint64_t n = pairs.size() - first;
    if (n > 0) added = checked_add(added, checked_mul(n, n - 1, kCountName) / 2, kCountName);
    if (added > limit) {
      throw FieldError(cat("neighbors: expected at most ", limit, " triplets for ", n_atoms, " atoms, got ", added,
                           " up to atom ", center))
          .at_field("positions");
    }
  }
  n_triplets = checked_add(n_triplets, added, kCountName);
}

}  // namespace atompack::physics
