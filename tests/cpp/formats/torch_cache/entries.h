// Small molecules with all that a cache can hold of them, for the tests of those who write it.
#pragma once

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "formats/torch_cache/build/encoder.h"

namespace atompack::test {

inline constexpr int64_t kFeatures = 6, kRadial = 2, kAngular = 1;

// Owns what EntryColumns only sees. Molecule k of `sizes` has energy -k, forces unless k % 3 == 1, a cell where k is
// odd, and as many edges and half as many triplets as atoms.
class Entries {
 public:
  explicit Entries(std::vector<int64_t> sizes, DType storage = DType::float64) {
    for (const int64_t n : sizes) ptr_.push_back(ptr_.back() + n);
    const auto n = static_cast<size_t>(ptr_.back());
    positions_.resize(3 * n);
    std::iota(positions_.begin(), positions_.end(), 0.25);
    features_.resize(kFeatures * n);
    std::iota(features_.begin(), features_.end(), 0.1);
    numbers_.assign(n, 1);
    const auto n_molecules = sizes.size();
    cell_.assign(9 * n_molecules, 1.5);
    has_forces_ = std::make_unique<bool[]>(n_molecules);
    has_cell_ = std::make_unique<bool[]>(n_molecules);
    has_energy_ = std::make_unique<bool[]>(n_molecules);
    for (size_t k = 0; k < n_molecules; ++k) {
      energy_.push_back(-static_cast<double>(k));
      has_energy_[k] = k % 4 != 3;
      has_forces_[k] = k % 3 != 1;
      has_cell_[k] = k % 2 == 1;
      names_.push_back(k % 2 == 0 ? std::optional("m" + std::to_string(k)) : std::nullopt);
      add_rows(ptr_[k], sizes[k], has_forces_[k]);
    }
    fill(storage);
  }

  torch_cache::EntryColumns columns;
  const std::vector<int64_t>& centers() const { return centers_; }

 private:
  void add_rows(int64_t first, int64_t n, bool there) {
    for (int64_t i = 0; there && i < n; ++i) centers_.push_back(first + i);
    for (int64_t i = 0; there && i < n / 2; ++i) triplets_.push_back(first + i);
    edge_ptr_.push_back(std::ssize(centers_));
    triplet_ptr_.push_back(std::ssize(triplets_));
  }

  void fill(DType storage) {
    gradients_.resize(3 * kRadial * centers_.size());
    std::iota(gradients_.begin(), gradients_.end(), 0.3);
    spins_.assign(centers_.size(), -1);
    columns.ptr = ptr_;
    columns.positions = positions_.data();
    columns.atomic_numbers = numbers_;
    columns.symbols = symbols_;
    columns.energy = {energy_.data(), has_energy_.get()};
    columns.forces = {positions_.data(), has_forces_.get()};
    columns.cell = {cell_.data(), has_cell_.get()};
    columns.names = names_;
    columns.storage = storage;
    columns.features = of(features_, kFeatures);
    torch_cache::DerivativeColumns& rows = columns.derivatives.emplace();
    rows.edge_ptr = edge_ptr_;
    rows.triplet_ptr = triplet_ptr_;
    rows.radial_center = rows.radial_neighbor = centers_.data();
    rows.radial_gradients = of(gradients_, 3 * kRadial);
    rows.radial_typespin = of(spins_, 1);
    rows.angular_center = rows.angular_j = rows.angular_k = triplets_.data();
    rows.angular_gradients.fill(of(gradients_, 3 * kAngular));
    rows.angular_typespin = of(spins_, 1);
  }

  static torch_cache::ValueColumn of(const std::vector<double>& values, int64_t row) {
    return {std::as_bytes(std::span(values)).data(), DType::float64, static_cast<size_t>(row)};
  }

  std::vector<int64_t> ptr_{0}, edge_ptr_{0}, triplet_ptr_{0}, numbers_, centers_, triplets_;
  std::vector<double> positions_, features_, energy_, cell_, gradients_, spins_;
  std::unique_ptr<bool[]> has_forces_, has_cell_, has_energy_;
  std::vector<std::optional<std::string>> names_;
  std::vector<std::string> symbols_{"X", "H"};
};

}  // namespace atompack::test
