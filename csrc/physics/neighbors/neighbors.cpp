#include "physics/neighbors/neighbors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace atompack::physics {
namespace {

// In the order of evaluation of the neighbor search.
double square_of(std::span<const double> positions, const Matrix3& cell, const PairList& pairs, size_t pair) {
  if (!pairs.vectors.empty()) {
    const auto& [x, y, z] = pairs.vectors[pair].xyz;
    return x * x + y * y + z * z;
  }
  const auto& cells = pairs.shifts[pair].cells;
  const size_t i = pairs.i[pair], j = pairs.j[pair];
  Vector3 vector;
  for (size_t d = 0; d < 3; ++d) {
    vector[d] = positions[3 * j + d] - positions[3 * i + d] +
                (cells[0] * cell[0][d] + cells[1] * cell[1][d] + cells[2] * cell[2][d]);
  }
  return dot(vector, vector);
}

void move_pair(size_t from, size_t to, PairList& pairs) {
  pairs.i[to] = pairs.i[from];
  pairs.j[to] = pairs.j[from];
  pairs.shifts[to] = pairs.shifts[from];
  if (!pairs.vectors.empty()) pairs.vectors[to] = pairs.vectors[from];
}

}  // namespace

void NearestNeighbors::keep(std::span<const double> positions, const Matrix3& cell, PairList& pairs) {
  const size_t n_pairs = pairs.size();
  size_t first = pairs.ends.size() > 1 ? pairs.ends[pairs.ends.size() - 2] : 0;
  size_t end = first;
  while (first < n_pairs) {
    size_t last = first;
    while (last < n_pairs && pairs.i[last] == pairs.i[first]) ++last;
    if (last - first > max_neighbors_) measure(positions, cell, pairs, first, last);
    end = keep_of_atom(first, last, end, pairs);
    first = last;
  }
  if (pairs.ends.empty()) return;
  pairs.i.resize(end);
  pairs.j.resize(end);
  pairs.shifts.resize(end);
  if (!pairs.vectors.empty()) pairs.vectors.resize(end);
  pairs.ends.back() = end;
}

void NearestNeighbors::measure(std::span<const double> positions, const Matrix3& cell, const PairList& pairs,
                               size_t first, size_t last) {
  squares_.clear();
  for (size_t pair = first; pair < last; ++pair) squares_.push_back(square_of(positions, cell, pairs, pair));
}

// Moves the pairs that an atom keeps to `end`; returns the new end.
size_t NearestNeighbors::keep_of_atom(size_t first, size_t last, size_t end, PairList& pairs) {
  if (last - first <= max_neighbors_) {
    for (size_t pair = first; pair < last; ++pair) move_pair(pair, end++, pairs);
    return end;
  }
  sorted_ = squares_;
  const auto nth = sorted_.begin() + static_cast<std::ptrdiff_t>(max_neighbors_ - 1);
  std::ranges::nth_element(sorted_, nth);
  const double limit = *nth;
  const auto n_nearer = std::ranges::count_if(squares_, [limit](double square) { return square < limit; });
  size_t n_equal = max_neighbors_ - static_cast<size_t>(n_nearer);  // kept at the limit
  for (size_t pair = first; pair < last; ++pair) {
    const double square = squares_[pair - first];
    if (square > limit || (square == limit && n_equal == 0)) continue;
    if (square == limit) --n_equal;
    move_pair(pair, end++, pairs);
  }
  return end;
}

namespace {

// A float holds integers up to four times this number: two atoms may be that far from the origin on opposite sides.
constexpr double kMaxCells = 1 << 22;

// Beyond this, doubles no longer distinguish atoms.
constexpr double kMaxCoordinate = 1e15;

bool is_in_range(double x) { return std::abs(x) < kMaxCoordinate; }

[[noreturn]] void refuse_range(std::span<const double> positions) {
  const auto wrong = std::ranges::find_if_not(positions, is_in_range);
  const auto atom = (wrong - positions.begin()) / 3;
  throw FieldError(std::isfinite(*wrong)
                       ? cat("positions: expected numbers below ", kMaxCoordinate, ", got ", *wrong, " for atom ", atom)
                       : cat("positions: expected finite numbers, got ", *wrong, " for atom ", atom))
      .at_field("positions");
}

// After this many atoms, memory is reserved for the pairs of all.
constexpr size_t kSample = 1024;

void reserve(PairList& pairs, size_t begin, size_t n_atoms) {
  const size_t found = pairs.i.size() - begin, expected = found + found / 8 + 64;
  const size_t n = begin + expected * ((n_atoms + kSample - 1) / kSample);
  pairs.i.reserve(n);
  pairs.j.reserve(n);
  pairs.shifts.reserve(n);
  if (!pairs.vectors.empty()) pairs.vectors.reserve(n);
}

void check_cells(const Lattice& lattice, const Extents& extents) {
  for (size_t direction = 0; direction < 3; ++direction) {
    if (!lattice.periodic()[direction]) continue;
    const double cells =
        std::max(std::abs(extents[direction].first), std::abs(extents[direction].last)) / lattice.height(direction);
    if (cells < kMaxCells) continue;
    throw FieldError(cat("positions: expected less than ", kMaxCells, " cells from the origin, got ", cells))
        .at_field("positions");
  }
}

// Images of a range, and the point whose neighbors are sought.
struct Search {
  const Images& images;
  Range range;
  std::array<float, 3> from;

  const float* coordinates(size_t direction) const { return images.coordinates()[direction].data(); }
};

struct Picked {
  size_t n;
  bool sure;  // all are closer than the cutoff
};

// pick() puts the places of those images into `near` that may be near. NaN, of coordinates out of the range of float32,
// counts as near, but not as sure.
#if !defined(__aarch64__)
Picked pick_one_by_one(const Search& search, uint32_t* near) {
  const float *const x = search.coordinates(0), *const y = search.coordinates(1), *const z = search.coordinates(2);
  const auto [sure, possible] = search.images.square_limits();
  size_t n_near = 0, n_sure = 0;
  for (size_t place = search.range.first; place < search.range.last; ++place) {
    const float dx = x[place] - search.from[0], dy = y[place] - search.from[1], dz = z[place] - search.from[2];
    near[n_near] = static_cast<uint32_t>(place);
    const float square = dx * dx + dy * dy + dz * dz;
    n_near += square > possible ? 0 : 1;
    n_sure += square <= sure ? 1 : 0;
  }
  return {n_near, n_sure == n_near};
}
#endif

#if defined(__x86_64__) || defined(__aarch64__)
// By a mask of eight lanes: the numbers of those that are set, in order.
struct LaneTable {
  alignas(32) std::array<std::array<uint32_t, Images::kLanes>, 256> lanes{};

  constexpr LaneTable() {
    for (size_t mask = 0; mask < lanes.size(); ++mask) {
      size_t n = 0;
      for (uint32_t lane = 0; lane < Images::kLanes; ++lane) {
        if ((mask >> lane & 1) != 0) lanes[mask][n++] = lane;
      }
    }
  }
};
constexpr LaneTable kLaneTable;
#endif

#if defined(__x86_64__)
// The same, eight images at a time; writes up to seven places beyond the last one.
__attribute__((target("avx2"))) Picked pick_by_lanes(const Search& search, uint32_t* near) {
  const float *const x = search.coordinates(0), *const y = search.coordinates(1), *const z = search.coordinates(2);
  const __m256 from_x = _mm256_set1_ps(search.from[0]), from_y = _mm256_set1_ps(search.from[1]);
  const __m256 from_z = _mm256_set1_ps(search.from[2]);
  const __m256 sure = _mm256_set1_ps(search.images.square_limits().sure);
  const __m256 possible = _mm256_set1_ps(search.images.square_limits().possible);
  size_t n_near = 0;
  unsigned unsure = 0;
  for (size_t place = search.range.first; place < search.range.last; place += Images::kLanes) {
    const __m256 dx = _mm256_sub_ps(_mm256_loadu_ps(x + place), from_x);
    const __m256 dy = _mm256_sub_ps(_mm256_loadu_ps(y + place), from_y);
    const __m256 dz = _mm256_sub_ps(_mm256_loadu_ps(z + place), from_z);
    const __m256 square =
        _mm256_add_ps(_mm256_add_ps(_mm256_mul_ps(dx, dx), _mm256_mul_ps(dy, dy)), _mm256_mul_ps(dz, dz));
    auto mask = static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(square, possible, _CMP_NGT_UQ)));
    const size_t n_left = search.range.last - place;
    if (n_left < Images::kLanes) mask &= (1U << n_left) - 1;
    const __m256i lanes = _mm256_load_si256(reinterpret_cast<const __m256i*>(kLaneTable.lanes[mask].data()));
    const __m256i places = _mm256_add_epi32(lanes, _mm256_set1_epi32(static_cast<int>(place)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(near + n_near), places);
    n_near += static_cast<size_t>(std::popcount(mask));
    unsure |= mask & static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(square, sure, _CMP_NLE_UQ)));
  }
  return {n_near, unsure == 0};
}

const auto pick = __builtin_cpu_supports("avx2") != 0 ? pick_by_lanes : pick_one_by_one;
#elif defined(__aarch64__)
// Squared distances of four images from the search.
float32x4_t squares(const Search& search, size_t place) {
  const auto along = [&](size_t axis) {
    return vsubq_f32(vld1q_f32(search.coordinates(axis) + place), vdupq_n_f32(search.from[axis]));
  };
  const float32x4_t dx = along(0), dy = along(1), dz = along(2);
  return vaddq_f32(vaddq_f32(vmulq_f32(dx, dx), vmulq_f32(dy, dy)), vmulq_f32(dz, dz));
}

// The same, eight images at a time; writes up to seven places beyond the last one.
Picked pick_by_lanes(const Search& search, uint32_t* near) {
  const float32x4_t sure = vdupq_n_f32(search.images.square_limits().sure);
  const float32x4_t possible = vdupq_n_f32(search.images.square_limits().possible);
  constexpr std::array<uint32_t, Images::kLanes> kBits{1, 2, 4, 8, 16, 32, 64, 128};
  const uint32x4_t low_bits = vld1q_u32(kBits.data()), high_bits = vld1q_u32(kBits.data() + 4);
  // Lanes where a comparison is false, for NaN as well.
  const auto mask_unless = [&](uint32x4_t low, uint32x4_t high) {
    return vaddvq_u32(vorrq_u32(vbicq_u32(low_bits, low), vbicq_u32(high_bits, high)));
  };
  size_t n_near = 0;
  unsigned unsure = 0;
  for (size_t place = search.range.first; place < search.range.last; place += Images::kLanes) {
    const float32x4_t low = squares(search, place), high = squares(search, place + 4);
    unsigned mask = mask_unless(vcgtq_f32(low, possible), vcgtq_f32(high, possible));
    const size_t n_left = search.range.last - place;
    if (n_left < Images::kLanes) mask &= (1U << n_left) - 1;
    const uint32_t* const lanes = kLaneTable.lanes[mask].data();
    const uint32x4_t first = vdupq_n_u32(static_cast<uint32_t>(place));
    vst1q_u32(near + n_near, vaddq_u32(vld1q_u32(lanes), first));
    vst1q_u32(near + n_near + 4, vaddq_u32(vld1q_u32(lanes + 4), first));
    n_near += static_cast<size_t>(std::popcount(mask));
    unsure |= mask & mask_unless(vcleq_f32(low, sure), vcleq_f32(high, sure));
  }
  return {n_near, unsure == 0};
}

constexpr auto pick = pick_by_lanes;
#else
constexpr auto pick = pick_one_by_one;
#endif

}  // namespace

void NeighborSearch::find(std::span<const double> positions, const Lattice& lattice, PairList& pairs) {
  prepare(positions, lattice);
  near_.resize(images_.size() + Images::kLanes);
  const size_t begin = pairs.i.size(), n_atoms = positions.size() / 3;
  for (uint32_t i = 0; i < n_atoms; ++i) {
    if (i == kSample) reserve(pairs, begin, n_atoms);
    const auto [n_near, sure] = pick_near(i, images_.point(i), near_);
    const auto near = std::span(near_).first(n_near);
    if (sure && options_.full && !options_.vectors) {
      add_sure_pairs(i, near, pairs);
    } else {
      add_pairs(positions, i, near, pairs);
    }
  }
  pairs.ends.push_back(pairs.i.size());
  if (options_.max_neighbors) nearest_.keep(positions, cell_, pairs);
}

void NeighborSearch::prepare(std::span<const double> positions, const Lattice& lattice,
                             const threads::ChunkedLoops& loops) {
  if (positions.empty()) return;
  const Survey all = survey(positions, lattice, loops);
  if (!all.in_range) refuse_range(positions);
  check_cells(lattice, all.extents);
  const double rounding = 64 * std::numeric_limits<double>::epsilon() * all.farthest;  // of coordinates along a normal
  const Lattice near = without_far_images(lattice, all.extents, options_.cutoff + rounding);
  images_.gather(positions, near, options_.cutoff, loops);
  cell_ = near.cell();
}

NeighborSearch::Survey NeighborSearch::survey(std::span<const double> positions, const Lattice& lattice,
                                              const threads::ChunkedLoops& loops) {
  surveys_.clear();
  surveys_.resize(loops.n_chunks(), {true, 0, {}});
  loops.for_each(positions.size() / 3, [&](size_t chunk, size_t first, size_t last) {
    const auto some = positions.subspan(3 * first, 3 * (last - first));
    Survey& of_chunk = surveys_[chunk];
    for (const double x : some) {
      of_chunk.in_range &= is_in_range(x);
      of_chunk.farthest = std::max(of_chunk.farthest, std::abs(x));
    }
    of_chunk.extents = extents_of(some, lattice);
  });
  Survey all = surveys_.front();
  for (const Survey& some : surveys_) {
    all.in_range &= some.in_range;
    all.farthest = std::max(all.farthest, some.farthest);
    join(all.extents, some.extents);
  }
  return all;
}

void NeighborSearch::find_places(std::span<const double> positions, const Range& range, Column<uint32_t>& candidates,
                                 PlacesNear& near) const {
  candidates.resize(images_.size() + Images::kLanes);
  near.counts.resize(range.size());
  Column<uint32_t>& places = near.places;
  for (size_t place = range.first; place < range.last; ++place) {
    uint32_t& count = near.counts[place - range.first];
    count = 0;
    if (!is_atom(place)) continue;
    const auto self = static_cast<uint32_t>(place);
    const uint32_t i = atom_at(place);
    const auto [n_near, sure] = pick_near(i, images_.point_at(place), candidates);
    const size_t begin = places.size();
    places.resize(begin + n_near + 1);
    uint32_t* to = places.data() + begin;
    if (options_.self_interaction) *to++ = self;
    const auto found = std::span(candidates).first(n_near);
    if (sure && options_.full) {
      for (const uint32_t candidate : found) {
        *to = candidate;
        to += candidate != self ? 1 : 0;
      }
    } else {
      for (const uint32_t candidate : found) {
        *to = candidate;
        to += is_pair(positions, i, candidate) ? 1 : 0;
      }
    }
    count = static_cast<uint32_t>(to - places.data() - begin);
    places.resize(begin + count);
    if (begin == 0) places.reserve((places.size() + 16) * range.size() * 5 / 4);
  }
}

// Coarse comparison in float32: some of the remaining images may be slightly too far.
NeighborSearch::Near NeighborSearch::pick_near(size_t i, const std::array<float, 3>& point,
                                               std::span<uint32_t> near) const {
  Near found{0, true};
  images_.visit_near(i, [&](const Range& range) {
    const Picked picked = pick({images_, range, point}, near.data() + found.size);
    found.size += picked.n;
    found.sure &= picked.sure;
  });
  return found;
}

// All images but the atom itself make pairs.
void NeighborSearch::add_sure_pairs(uint32_t i, std::span<const uint32_t> near, PairList& pairs) const {
  size_t end = pairs.i.size();
  const size_t most = end + near.size() + 1;
  pairs.i.resize(most, i);
  pairs.j.resize(most);
  pairs.shifts.resize(most);
  if (options_.self_interaction) {
    pairs.j[end] = i;
    pairs.shifts[end++] = {};
  }
  const uint32_t self = images_.place(i);
  const std::array from = images_.image(self).cells;
  uint32_t* const j = pairs.j.data();
  Shift* const shifts = pairs.shifts.data();
  for (const uint32_t place : near) {
    const Image& image = images_.image(place);
    j[end] = image.atom;
    shifts[end] = {image.cells[0] - from[0], image.cells[1] - from[1], image.cells[2] - from[2]};
    end += place != self ? 1 : 0;
  }
  pairs.i.resize(end);
  pairs.j.resize(end);
  pairs.shifts.resize(end);
}

// Final comparison in float64.
void NeighborSearch::add_pairs(std::span<const double> positions, uint32_t i, std::span<const uint32_t> near,
                               PairList& pairs) const {
  const size_t n_near = near.size();
  size_t end = pairs.i.size() + (options_.self_interaction ? 1 : 0);
  pairs.j.resize(end + n_near);
  pairs.shifts.resize(end + n_near);
  if (options_.vectors) pairs.vectors.resize(end + n_near);
  if (options_.self_interaction) {
    pairs.j[end - 1] = i;
    pairs.shifts[end - 1] = {};
    if (options_.vectors) pairs.vectors[end - 1] = {};
  }

  const double square = options_.cutoff * options_.cutoff;
  const Vector3& from = images_.cells(i);
  for (size_t k = 0; k < n_near; ++k) {
    const Image& image = images_.image(near[k]);
    const Vector3 cells{image.cells[0] - from[0], image.cells[1] - from[1], image.cells[2] - from[2]};
    const Vector vector = vector_to(positions, i, image.atom, cells);
    const auto [x, y, z] = vector.xyz;
    pairs.j[end] = image.atom;
    for (size_t d = 0; d < 3; ++d) pairs.shifts[end].cells[d] = static_cast<float>(cells[d]);
    if (options_.vectors) pairs.vectors[end] = vector;
    end += x * x + y * y + z * z < square && is_wanted(i, image.atom, cells) ? 1 : 0;
  }
  pairs.i.resize(end, i);
  pairs.j.resize(end);
  pairs.shifts.resize(end);
  if (options_.vectors) pairs.vectors.resize(end);
}

bool NeighborSearch::is_pair(std::span<const double> positions, uint32_t i, uint32_t place) const {
  const Image& image = images_.image(place);
  const Vector3& from = images_.cells(i);
  const Vector3 cells{image.cells[0] - from[0], image.cells[1] - from[1], image.cells[2] - from[2]};
  const auto [x, y, z] = vector_to(positions, i, image.atom, cells).xyz;
  return x * x + y * y + z * z < options_.cutoff * options_.cutoff && is_wanted(i, image.atom, cells);
}

bool NeighborSearch::is_wanted(uint32_t i, uint32_t j, const Vector3& cells) const {
  if (options_.full) return i != j || cells[0] != 0 || cells[1] != 0 || cells[2] != 0;
  if (i != j) return i < j;
  const double sum = cells[0] + cells[1] + cells[2];
  return sum > 0 || (sum == 0 && (cells[2] > 0 || (cells[2] == 0 && cells[1] > 0)));
}

}  // namespace atompack::physics
