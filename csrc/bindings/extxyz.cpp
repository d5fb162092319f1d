#include "bindings/bindings.h"

#include <pybind11/numpy.h>

#include "bindings/plain_arrays.h"
#include "formats/extxyz/formatter.h"
#include "model/element.h"

namespace atompack::bindings {
namespace {

using extxyz::Kind;

// Returns a view. The caller has made all arrays contiguous, of float64, int64 or bool, and keeps them alive.
extxyz::ArrayView view_of(py::handle value, bool has_rows) {
  if (value.is_none()) return {};
  if (py::isinstance<py::str>(value)) return {Kind::text, {}, nullptr, value.cast<std::string_view>()};
  const auto array = value.cast<py::array>();
  const Kind kind = holds<double>(array) ? Kind::real : holds<int64_t>(array) ? Kind::integer : Kind::flag;
  if (!is_plain(array) || (kind == Kind::flag && !holds<bool>(array))) throw InternalError("an array of another type");
  const auto* const dims = array.shape();
  return {kind, {dims + (has_rows ? 1 : 0), dims + array.ndim()}, array.data(), {}};
}

// (level, key, values, present)
using PyField = std::tuple<Level, std::string, py::object, std::span<const uint8_t>>;

extxyz::FieldView view_of(const PyField& from) {
  const auto& [level, key, values, present] = from;
  extxyz::FieldView field{level, key, present, py::isinstance<py::array>(values), {}};
  if (field.stacked) {
    field.arrays.push_back(view_of(values, true));
  } else {
    for (const py::handle value : values) field.arrays.push_back(view_of(value, field.level == Level::atom));
  }
  return field;
}

using Flags = std::span<const uint8_t>;

py::bytes format(std::span<const int64_t> ptr, std::span<const double> positions, std::span<const int64_t> numbers,
                 const std::pair<std::span<const double>, Flags>& cell, const std::pair<Flags, Flags>& pbc,
                 const std::vector<PyField>& fields) {
  extxyz::BlockView block{ptr, positions, numbers, cell.first, cell.second, pbc.first, pbc.second, {}};
  for (const PyField& field : fields) block.fields.push_back(view_of(field));
  return without_gil([&] { return extxyz::format_block(block); });
}

}  // namespace

void bind_extxyz(py::module_& module) {
  module.def("element_symbols", [] {
    py::list symbols;
    for (uint8_t number = 0; number <= kLastElement; ++number) symbols.append(symbol_of(number));
    return symbols;
  });
  module.def("format_extxyz", &format, "ptr"_a, "positions"_a, "numbers"_a, "cell"_a, "pbc"_a, "fields"_a);
}

}  // namespace atompack::bindings
