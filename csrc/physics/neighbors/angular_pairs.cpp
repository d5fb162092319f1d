#include "physics/neighbors/angular_pairs.h"

#include "base/checked_math.h"

namespace atompack::physics {
namespace {

constexpr std::string_view kCountName = "number of triplets";

// Allowed triplets of a structure: all those of 4096 neighbors of one atom, and of 362 neighbors of every atom.
constexpr uint64_t kMaxTriplets = uint64_t{1} << 23;
constexpr uint64_t kMaxTripletsPerAtom = uint64_t{1} << 16;

}  // namespace

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
