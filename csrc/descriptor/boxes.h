// What a search that sorts atoms into boxes as wide as the cutoff has before it.
#pragma once

#include <array>
#include <span>

#include "descriptor/lattice.h"

namespace atompack::descriptor {

// Where atoms lie along one of the lattice's normals.
struct Extent {
  double first, last;
  double length() const { return last - first; }
};
using Extents = std::array<Extent, 3>;

// `positions` holds x, y, z of each atom, of which there is one at least.
Extents extents_of(std::span<const double> positions, const Lattice& lattice);

// The same lattice without the directions in which no image comes as near as the cutoff.
Lattice without_far_images(const Lattice& lattice, const Extents& extents, double cutoff);

// At most this many pairs, near or not, are looked at for so many atoms: a few characters of a file can put all atoms
// on one place or make the cell a speck, and then there is no end of neighbors.
double most_candidates(size_t n_atoms);

// An upper bound of the pairs that a search looks at.
double count_candidates(std::span<const double> positions, const Lattice& lattice, const Extents& extents,
                        double cutoff);

// The cutoff, or the least multiple by a power of two with which vesin can work: it makes at most 1e5 boxes and rounds
// their number down in each direction, to none (and divides by that) where the structure is much longer than wide; and
// it walks through all boxes, however few atoms there are. Throws FieldError where there is none: too much would have
// to be looked at.
double workable_cutoff(std::span<const double> positions, const Lattice& lattice, const Extents& extents,
                       double cutoff);

}  // namespace atompack::descriptor
