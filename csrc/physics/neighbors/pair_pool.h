// Pool of neighbor lists: fresh memory costs more than writing the pairs.
#pragma once

#include <memory>

#include "physics/neighbors/pair_list.h"

namespace atompack::physics {

struct GiveBackPairs {
  void operator()(PairList* pairs) const noexcept;
};

// An empty list, which returns to the pool with its memory when its owner is destroyed.
using PooledPairs = std::unique_ptr<PairList, GiveBackPairs>;

// Thread-safe.
PooledPairs take_pairs();

}  // namespace atompack::physics
