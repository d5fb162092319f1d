// Outputs that are made of a field: labels with a value where they are missing, weights.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "collate/fill/copy.h"
#include "collate/outputs/outputs.h"
#include "model/element.h"

namespace atompack::collate {
namespace {

std::byte* place(std::byte* to, DType dtype, int64_t element) {
  return to + static_cast<size_t>(element) * item_bytes(dtype);
}

void store(std::span<const double> from, DType dtype, std::byte* to) {
  if (dtype == DType::boolean) {
    std::ranges::transform(from, to, [](double value) { return std::byte{value != 0}; });
  } else {
    copy_values(to, dtype, reinterpret_cast<const std::byte*>(from.data()), DType::float64, from.size());
  }
}

// True if the integer type, or boolean, holds the value.
bool holds(DType dtype, double value) {
  if (!std::isfinite(value) || value != std::trunc(value)) return false;
  if (dtype == DType::boolean) return value == 0 || value == 1;
  const auto bits = static_cast<int>(8 * item_bytes(dtype));
  const bool is_signed = dtype >= DType::int8;
  const double end = std::ldexp(1.0, is_signed ? bits - 1 : bits);
  return value < end && value >= (is_signed ? -end : 0);
}

// Writer of the values of one field.
class ValueWriter {
 public:
  ValueWriter(const Output& output, const FieldValues& field, const OutputPart& part, std::byte* to)
      : output_(output),
        field_(field),
        part_(part),
        to_(to),
        row_elements_(output.kind == OutputKind::voigt ? 6 : field.row_elements),
        fill_(std::isnan(output.fill) && !is_floating(output.dtype) ? 0 : output.fill) {}

  void write(int64_t molecule) {
    const int64_t first = field_.level == Level::atom ? ptr(molecule) : molecule;
    const int64_t rows = field_.level == Level::atom ? ptr(molecule + 1) - first : 1;
    const int64_t count = rows * row_elements_;
    std::byte* const to = place(to_, output_.dtype, first * row_elements_);
    if (!field_.values || (field_.mask != nullptr && !field_.mask[molecule])) {
      values_.assign(static_cast<size_t>(count), fill_);
      return store(values_, output_.dtype, to);
    }
    if (is_plain()) {
      const std::byte* const from = field_.values.data + static_cast<size_t>(first * row_elements_) * bytes_of_value();
      return copy_values(to, output_.dtype, from, field_.values.dtype, static_cast<size_t>(count));
    }
    read(first, count);
    if (!output_.references.empty()) values_.front() -= sum_of_references(molecule);
    if (output_.scale != 1) {
      for (double& value : values_) value *= output_.scale;
    }
    if (!is_floating(output_.dtype)) check_integers(molecule);
    store(values_, output_.dtype, to);
  }

 private:
  int64_t ptr(int64_t molecule) const { return part_.inputs.ptr[static_cast<size_t>(molecule)]; }
  size_t bytes_of_value() const { return item_bytes(field_.values.dtype); }

  // True if values are only converted to another width, which holds them.
  bool is_plain() const {
    const DType from = field_.values.dtype, to = output_.dtype;
    const bool fits = from == to || (from != DType::boolean && is_floating(to)) ||
                      (from == DType::uint8 && is_integer(to) && to != DType::int8);
    return fits && output_.kind == OutputKind::value && output_.scale == 1 && output_.references.empty();
  }

  void read(int64_t first, int64_t count) {
    if (output_.kind != OutputKind::voigt) {
      values_.resize(static_cast<size_t>(count));
      return load(field_.values, first * row_elements_, values_);
    }
    std::array<double, 9> tensor{};
    load(field_.values, first * 9, tensor);
    values_.clear();
    for (const int64_t element : output_.order) values_.push_back(tensor.at(static_cast<size_t>(element)));
  }

  double sum_of_references(int64_t molecule) const {
    double sum = 0;
    for (int64_t atom = ptr(molecule); atom < ptr(molecule + 1); ++atom) {
      const auto number = static_cast<size_t>(part_.inputs.atomic_numbers[static_cast<size_t>(atom)]);
      const double energy = number < output_.references.size() ? output_.references[number] : NAN;
      if (std::isnan(energy)) {
        part_.fail(FieldError(cat("no reference energy of element ", number)).at_field(output_.field->key), molecule);
      }
      sum += energy;
    }
    return sum;
  }

  void check_integers(int64_t molecule) const {
    const auto wrong = std::ranges::find_if(values_, [&](double value) { return !holds(output_.dtype, value); });
    if (wrong == values_.end()) return;
    FieldError error(cat("expected integers that ", name_of(output_.dtype), " holds, got ", *wrong));
    part_.fail(error.at_field(output_.field->key), molecule);
  }

  const Output& output_;
  const FieldValues& field_;
  const OutputPart& part_;
  std::byte* to_;
  int64_t row_elements_;
  double fill_;
  std::vector<double> values_;  // of one molecule
};

}  // namespace

void write_values(const Output& output, const FieldValues& field, const OutputPart& part, std::byte* to) {
  ValueWriter writer(output, field, part, to);
  for (int64_t molecule = part.first_molecule; molecule < part.last_molecule; ++molecule) writer.write(molecule);
}

void write_constants(const Output& output, const OutputPart& part, std::byte* to) {
  const bool is_of_atoms = output.level == Level::atom;
  const int64_t first = is_of_atoms ? part.first_atom() : part.first_molecule;
  const int64_t last = is_of_atoms ? part.last_atom() : part.last_molecule;
  int64_t row_elements = 1;
  for (const int64_t dim : output.row_shape) row_elements *= dim;
  std::byte* const begin = place(to, output.dtype, first * row_elements);
  const auto n_bytes = static_cast<size_t>((last - first) * row_elements) * item_bytes(output.dtype);
  if (output.fill == 0) {
    std::memset(begin, 0, n_bytes);
  } else {
    store(std::vector(static_cast<size_t>((last - first) * row_elements), output.fill), output.dtype, begin);
  }
}

void write_weights(const Output& output, const FieldValues& field, const OutputPart& part, std::byte* to) {
  for (int64_t molecule = part.first_molecule; molecule < part.last_molecule; ++molecule) {
    const bool is_present = field.values && (field.mask == nullptr || field.mask[molecule]);
    store(std::array{is_present ? output.scale : 0.0}, output.dtype, place(to, output.dtype, molecule));
  }
}

}  // namespace atompack::collate
