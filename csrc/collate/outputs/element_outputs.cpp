// Outputs that are made of atomic numbers.
#include <cstring>

#include "base/error.h"
#include "collate/fill/copy.h"
#include "collate/outputs/outputs.h"
#include "model/element.h"

namespace atompack::collate {
namespace {

[[noreturn]] void refuse_element(int64_t number, int64_t molecule, const Output& output, const OutputPart& part) {
  std::string known;
  for (size_t element = 0; element < output.columns.size(); ++element) {
    if (output.columns[element] < 0 || element > kLastElement) continue;
    known += cat(known.empty() ? "" : ", ", symbol_of(static_cast<uint8_t>(element)));
  }
  const bool has_symbol = number >= 0 && number <= kLastElement;
  const std::string got = has_symbol ? std::string(symbol_of(static_cast<uint8_t>(number))) : cat("element ", number);
  part.fail(FieldError(cat("expected elements of the model (", known, "), got ", got)).at_field("atomic_numbers"),
            molecule);
}

// Returns the column of each atom of a part.
std::vector<int64_t> columns_of(const Output& output, const OutputPart& part) {
  std::vector<int64_t> columns;
  columns.reserve(static_cast<size_t>(part.last_atom() - part.first_atom()));
  for (int64_t molecule = part.first_molecule; molecule < part.last_molecule; ++molecule) {
    const int64_t end = part.inputs.ptr[static_cast<size_t>(molecule) + 1];
    for (int64_t atom = part.inputs.ptr[static_cast<size_t>(molecule)]; atom < end; ++atom) {
      const int64_t number = part.inputs.atomic_numbers[static_cast<size_t>(atom)];
      const bool is_listed = number >= 0 && number < std::ssize(output.columns);
      const int64_t column = is_listed ? output.columns[static_cast<size_t>(number)] : -1;
      if (column < 0) refuse_element(number, molecule, output, part);
      columns.push_back(column);
    }
  }
  return columns;
}

}  // namespace

void write_elements(const Output& output, const OutputPart& part, std::byte* to) {
  const std::vector<int64_t> columns = columns_of(output, part);
  const size_t item = item_bytes(output.dtype);
  const auto first = static_cast<size_t>(part.first_atom());
  if (output.kind == OutputKind::element_index) {
    const auto* const from = reinterpret_cast<const std::byte*>(columns.data());
    return copy_values(to + first * item, output.dtype, from, DType::int64, columns.size());
  }
  const int64_t one = 1;
  std::array<std::byte, 8> set{};
  copy_values(set.data(), output.dtype, reinterpret_cast<const std::byte*>(&one), DType::int64, 1);
  const OutputDims& dims = part.inputs.dims;
  const auto width = static_cast<size_t>(output_shape(output, dims, std::nullopt)[1]);
  std::byte* row = to + first * width * item;
  std::memset(row, 0, columns.size() * width * item);
  for (const int64_t column : columns) {
    std::memcpy(row + static_cast<size_t>(column) * item, set.data(), item);
    row += width * item;
  }
}

}  // namespace atompack::collate
