// Molecules in columns whose every value shows which molecule it belongs to.
#pragma once

#include <string>
#include <vector>

#include "formats/atp/columns.h"

namespace atompack::test {

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

inline atp::Value floats(const std::vector<float>& values, const Shape& shape) {
  return {ValueKind::numeric, DType::float32, shape, bytes_of(values)};
}
inline atp::Value doubles(const std::vector<double>& values, const Shape& shape) {
  return {ValueKind::numeric, DType::float64, shape, bytes_of(values)};
}
inline atp::Value integers(const std::vector<int64_t>& values, const Shape& shape) {
  return {ValueKind::numeric, DType::int64, shape, bytes_of(values)};
}

// Owns what its columns point at. Molecule i of the file has i % 4 atoms, energy i and the property "id" i.
class SampleColumns {
 public:
  SampleColumns(int64_t first, int64_t n) {
    ptr_.push_back(0);
    for (int64_t i = first; i < first + n; ++i) {
      for (int64_t k = 0; k < i % 4; ++k) {
        for (int axis = 0; axis < 3; ++axis)
          positions_.push_back(static_cast<float>(i) + 0.25F * static_cast<float>(axis));
        numbers_.push_back(1 + i % 90);
      }
      ptr_.push_back(static_cast<int64_t>(numbers_.size()));
      energies_.push_back(static_cast<double>(i));
      ids_.push_back(i);
    }
    const int64_t atoms = ptr_.back();
    columns_ = {floats(positions_, {atoms, 3}), integers(numbers_, {atoms}), ptr_, {}, std::nullopt};
    columns_.fields.push_back({Scope::builtin, "energy", doubles(energies_, {n}), {}, nullptr});
    columns_.fields.push_back({Scope::molecule_property, "id", integers(ids_, {n}), {}, nullptr});
  }
  SampleColumns(const SampleColumns&) = delete;
  SampleColumns& operator=(const SampleColumns&) = delete;

  const atp::Columns& get() const { return columns_; }
  std::span<const atp::Columns> run() const { return {&columns_, 1}; }

 private:
  std::vector<float> positions_;
  std::vector<int64_t> numbers_, ptr_, ids_;
  std::vector<double> energies_;
  atp::Columns columns_;
};

}  // namespace atompack::test
