// Pool of neighbor lists: fresh memory costs more than writing the pairs.
#pragma once

#include <cstdint>
#include <memory>

#include "physics/neighbors/columns.h"
#include "physics/neighbors/pair_list.h"

namespace atompack::physics {

template <typename T>
struct GiveBack {
  void operator()(T* list) const noexcept;
};

// An empty list, which returns to the pool with its memory when its owner is destroyed.
template <typename T>
using Pooled = std::unique_ptr<T, GiveBack<T>>;

// Thread-safe. T: PairList, PlacesNear, Column<uint32_t>.
template <typename T>
Pooled<T> take_from_pool();

using PooledPairs = Pooled<PairList>;
inline PooledPairs take_pairs() { return take_from_pool<PairList>(); }

}  // namespace atompack::physics
