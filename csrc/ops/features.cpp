#include "ops/features.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "collate/arena.h"
#include "collate/tensor_checks.h"
#include "collate/torch_threads.h"
#include "threads/adaptive_parallelism.h"

namespace atompack::ops {
namespace {

using physics::CenterTask;
using physics::Chebyshev;
using physics::DerivativeRows;
using physics::Neighborhoods;

// An atom takes a few microseconds; waking a thread takes several times as long.
constexpr int64_t kMinAtoms = 16;

// Consecutive molecules of the batch, and the neighborhoods of their atoms.
struct Part {
  size_t first_molecule, last_molecule;
  int64_t first_atom, last_atom;
  size_t first_edge = 0, first_triplet = 0;  // offsets in the batch
  Neighborhoods near = {};
};

// Splits whole molecules into parts of about equally many atoms.
std::vector<Part> cut(std::span<const int64_t> ptr, int64_t n_parts) {
  std::vector<Part> parts;
  size_t first = 0;
  for (int64_t part = 1; part <= n_parts; ++part) {
    size_t last = ptr.size() - 1;
    if (part < n_parts) {
      last = static_cast<size_t>(std::ranges::lower_bound(ptr, ptr.back() * part / n_parts) - ptr.begin());
    }
    parts.push_back({.first_molecule = first, .last_molecule = last, .first_atom = ptr[first], .last_atom = ptr[last]});
    first = last;
  }
  return parts;
}

void search(const Chebyshev& descriptor, const Structures64& structures, Part& part) {
  physics::NeighborhoodSearch search = descriptor.search();
  for (size_t molecule = part.first_molecule; molecule < part.last_molecule; ++molecule) {
    at_molecule(static_cast<int64_t>(molecule),
                [&] { search.find(structures.positions(molecule), structures.lattice(molecule), part.near); });
  }
}

// Consecutive centers of one part.
struct PartCenters {
  const Part* part;
  size_t first, last;
};

// Splits all centers into shares of about equal work, regardless of molecule and part boundaries.
std::vector<std::vector<PartCenters>> split_work(const std::vector<Part>& parts, size_t n_shares) {
  constexpr size_t kEdge = 1, kTriplet = 4;
  const auto work_before = [](const Part& part, size_t center) {
    return kEdge * (part.near.edge_ends[center] + center) + kTriplet * part.near.triplet_ends[center];
  };
  size_t total = 0;
  for (const Part& part : parts) total += work_before(part, part.near.n_centers());
  std::vector<std::vector<PartCenters>> shares(n_shares);
  size_t done = 0, number = 0;
  for (const Part& part : parts) {
    size_t first = 0;
    for (size_t center = 0; center < part.near.n_centers(); ++center) {
      const bool is_last = center + 1 == part.near.n_centers();
      const bool is_full = done + work_before(part, center + 1) > total * (number + 1) / n_shares;
      if (!is_last && !is_full) continue;
      shares[number].push_back({&part, first, center + 1});
      first = center + 1;
      if (is_full && number + 1 < n_shares) ++number;
    }
    done += work_before(part, part.near.n_centers());
  }
  return shares;
}

// Destinations of the batch's rows: the tensors of Features, in that order.
template <typename Real>
DerivativeRows<Real> rows_in(const std::vector<at::Tensor>& tensors, bool multi) {
  auto next = tensors.begin();
  const auto atoms = [&] { return (next++)->mutable_data_ptr<int64_t>(); };
  const auto reals = [&] { return (next++)->mutable_data_ptr<Real>(); };
  DerivativeRows<Real> rows;
  rows.radial_center = atoms();
  rows.radial_neighbor = atoms();
  rows.radial_grads = reals();
  if (multi) rows.radial_spin = reals();
  rows.angular_center = atoms();
  rows.angular_j = atoms();
  rows.angular_k = atoms();
  rows.grads_i = reals();
  rows.grads_j = reals();
  rows.grads_k = reals();
  if (multi) rows.angular_spin = reals();
  return rows;
}

// The same destinations, from the first row of a part on.
template <typename Real>
DerivativeRows<Real> rows_of(const Part& part, const Chebyshev& descriptor, DerivativeRows<Real> rows) {
  const auto pass = [](auto*& pointer, size_t n) {
    if (pointer != nullptr) pointer += n;
  };
  for (auto** atoms : {&rows.radial_center, &rows.radial_neighbor}) pass(*atoms, part.first_edge);
  for (auto** atoms : {&rows.angular_center, &rows.angular_j, &rows.angular_k}) pass(*atoms, part.first_triplet);
  pass(rows.radial_grads, part.first_edge * descriptor.n_radial() * 3);
  for (auto** grads : {&rows.grads_i, &rows.grads_j, &rows.grads_k}) {
    pass(*grads, part.first_triplet * descriptor.n_angular() * 3);
  }
  pass(rows.radial_spin, part.first_edge);
  pass(rows.angular_spin, part.first_triplet);
  return rows;
}

// Allocates the tensors for all parts and sets the offset of each part.
Features allocate(const Chebyshev& descriptor, std::vector<Part>& parts, bool derivatives, DType dtype) {
  size_t n_edges = 0, n_triplets = 0;
  for (Part& part : parts) {
    part.first_edge = n_edges;
    part.first_triplet = n_triplets;
    n_edges += part.near.n_edges();
    n_triplets += part.near.n_triplets();
  }
  std::vector<collate::TensorSpec> specs;
  const auto add = [&](DType type, std::vector<int64_t> shape) { specs.push_back({type, std::move(shape)}); };
  add(dtype, {parts.back().last_atom, static_cast<int64_t>(descriptor.n_features())});
  if (derivatives) {
    const auto edges = static_cast<int64_t>(n_edges), triplets = static_cast<int64_t>(n_triplets);
    for (int i = 0; i < 2; ++i) add(DType::int64, {edges});
    add(dtype, {edges, static_cast<int64_t>(descriptor.n_radial()), 3});
    if (descriptor.multi()) add(dtype, {edges});
    for (int i = 0; i < 3; ++i) add(DType::int64, {triplets});
    for (int i = 0; i < 3; ++i) add(dtype, {triplets, static_cast<int64_t>(descriptor.n_angular()), 3});
    if (descriptor.multi()) add(dtype, {triplets});
  }
  const std::vector<at::Tensor> tensors = collate::allocate_tensors(specs, collate::ArenaKind::heap).views;
  Features made{.features = tensors.front(), .derivatives = {}};
  made.derivatives.assign(tensors.begin() + 1, tensors.end());
  return made;
}

template <typename Real>
void fill(const Chebyshev& descriptor, const std::vector<Part>& parts, std::span<const int32_t> species,
          const Features& features) {
  const bool has_rows = !features.derivatives.empty();
  const DerivativeRows<Real> all =
      has_rows ? rows_in<Real>(features.derivatives, descriptor.multi()) : DerivativeRows<Real>{};
  auto* const first = features.features.mutable_data_ptr<Real>();
  const auto shares = split_work(parts, parts.size());
  collate::for_each_range(std::ssize(shares), [&](int64_t number) {
    physics::ChebyshevScratch scratch = descriptor.scratch();
    for (const PartCenters& range : shares[static_cast<size_t>(number)]) {
      const Part& part = *range.part;
      const DerivativeRows<Real> rows = rows_of(part, descriptor, all);
      const auto first_atom = static_cast<size_t>(part.first_atom);
      descriptor.compute(part.near,
                         CenterTask<Real>{.first = range.first,
                                          .last = range.last,
                                          .species = species.subspan(first_atom, part.near.n_centers()),
                                          .first_atom = part.first_atom,
                                          .features = first + first_atom * descriptor.n_features(),
                                          .rows = has_rows ? &rows : nullptr},
                         scratch);
    }
  });
}

}  // namespace

Featurizer::Featurizer(physics::ChebyshevOptions options, std::vector<int64_t> atomic_numbers)
    : descriptor_(std::move(options)), atomic_numbers_(std::move(atomic_numbers)) {}

// Converts atomic numbers to species indices.
std::vector<int32_t> Featurizer::species_of(std::span<const int64_t> numbers, std::span<const int64_t> ptr) const {
  std::vector<int32_t> species(numbers.size());
  for (size_t atom = 0; atom < numbers.size(); ++atom) {
    const auto found = std::ranges::find(atomic_numbers_, numbers[atom]);
    if (found == atomic_numbers_.end()) {
      const auto molecule = std::ranges::upper_bound(ptr, static_cast<int64_t>(atom)) - ptr.begin() - 1;
      std::string labels;
      for (const std::string& label : descriptor_.options().species) labels += (labels.empty() ? "" : ", ") + label;
      throw FieldError(cat("atomic_numbers: expected one of the species ", labels, ", got number ", numbers[atom]))
          .at_molecule(molecule)
          .at_field("atomic_numbers");
    }
    species[atom] = static_cast<int32_t>(found - atomic_numbers_.begin());
  }
  return species;
}

Features Featurizer::compute(const StructureTensors& given, const at::Tensor& atomic_numbers, bool derivatives,
                             DType dtype) const {
  static threads::AdaptiveParallelism pace;
  const Structures64 structures(given);
  const int64_t n_atoms = structures.ptr().back();
  collate::expect_tensor(atomic_numbers, "atomic_numbers", at::kLong, {n_atoms});
  const at::Tensor numbers = collate::in_plain_memory(atomic_numbers);
  const std::vector<int32_t> species = species_of(collate::items_of<int64_t>(numbers), structures.ptr());
  const int64_t max_threads =
      std::clamp(collate::usable_threads(0), int64_t{1}, std::max(n_atoms / kMinAtoms, int64_t{1}));
  return threads::run_adaptively(pace, n_atoms, max_threads, [&](int64_t n_threads) {
    std::vector<Part> parts = cut(structures.ptr(), n_threads);
    collate::for_each_range(std::ssize(parts),
                            [&](int64_t part) { search(descriptor_, structures, parts[static_cast<size_t>(part)]); });
    Features made = allocate(descriptor_, parts, derivatives, dtype);
    (dtype == DType::float32 ? fill<float> : fill<double>)(descriptor_, parts, species, made);
    return made;
  });
}

}  // namespace atompack::ops
