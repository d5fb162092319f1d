#include "serial/pickle/numpy_calls.h"

#include <algorithm>
#include <vector>

#include "base/checked_math.h"
#include "base/excerpt.h"
#include "serial/pickle/arguments.h"
#include "serial/pickle/calls.h"
#include "serial/pickle/numpy_dtype.h"

namespace atompack::pickle {
namespace {

constexpr size_t kMaxRank = 64;  // NumPy's limit

Bytes buffer_of(const Cell& cell, std::string_view what) {
  if (cell.kind() != kByteArray) expect_kind(cell, Kind::bytes, what);
  return cell.bytes();
}

// Appends the strides of a contiguous array whose elements have been counted.
void add_strides(State& state, uint32_t first_extent, uint8_t rank, bool fortran) {
  std::vector<int64_t>& extents = state.tree.extents;
  extents.resize(extents.size() + rank);
  int64_t stride = 1;
  for (size_t i = 0; i < rank; ++i) {
    const size_t axis = fortran ? i : rank - 1 - i;
    extents[first_extent + rank + axis] = stride;
    stride *= std::max<int64_t>(extents[first_extent + axis], 1);
  }
}

struct Source {
  const Cell& shape;
  const Cell& type;
  const Cell& data;
  bool fortran;
};

void fill_objects(State& state, ArrayNode& array, const Cell& list, uint64_t size) {
  expect_kind(list, Kind::list, "object array");
  const SequenceNode& node = state.tree.sequences[list.node];
  if (node.size != size) corrupt("object array: expected ", size, " values, got ", node.size);
  // The array keeps these cells even if the list grows later.
  array.first_object = node.first;
  array.n_objects = node.size;
}

void fill_bytes(const ElementType& type, ArrayNode& array, Bytes data, uint64_t size) {
  const uint64_t bytes = checked_mul(size, type.item_bytes, "pickle: bytes of an array");
  if (data.size() != bytes) corrupt("data of an array: expected ", bytes, " bytes, got ", data.size());
  array.data = data;
}

void set_order(State& state, ArrayNode& array) {
  const auto extents = std::span(state.tree.extents).subspan(array.first_extent, 2 * size_t{array.rank});
  array.order = order_of(extents.first(array.rank), extents.last(array.rank));
}

ArrayNode make_array(State& state, const Source& source) {
  ArrayNode array{.type = type_of(state, source.type, "array"), .filled = true};
  array.first_extent = static_cast<uint32_t>(state.tree.extents.size());
  array.rank = add_extents(state, source.shape, "shape");
  const uint64_t size = count_elements(std::span(state.tree.extents).last(array.rank));
  add_strides(state, array.first_extent, array.rank, source.fortran);
  const ElementType& type = state.tree.types[array.type];
  if (type.kind == ElementKind::object) {
    fill_objects(state, array, source.data, size);
  } else {
    fill_bytes(type, array, buffer_of(source.data, "data of an array"), size);
  }
  set_order(state, array);
  return array;
}

Cell add_array(State& state, const ArrayNode& array, Kind kind = Kind::array) {
  state.tree.arrays.push_back(array);
  return Cell::make(kind, state.tree.arrays.size() - 1);
}

// Reorders the axes: axis j of the array becomes stored axis axes[j].
void permute(State& state, ArrayNode& array, const Cell& axes) {
  expect_kind(axes, Kind::tuple, "axes");
  const std::span<const Cell> numbers = state.items(axes);
  expect_count(numbers, array.rank, array.rank, "axes");
  const std::span<int64_t> extents = std::span(state.tree.extents).subspan(array.first_extent, 2 * size_t{array.rank});
  const std::vector<int64_t> stored(extents.begin(), extents.end());
  std::vector<bool> seen(array.rank, false);
  for (size_t j = 0; j < array.rank; ++j) {
    const uint32_t from = size_of(numbers[j], "axes");
    if (from >= array.rank || seen[from]) corrupt("axes: expected each axis once, got ", from);
    seen[from] = true;
    extents[j] = stored[from];
    extents[array.rank + j] = stored[array.rank + from];
  }
}

}  // namespace

uint64_t count_elements(std::span<const int64_t> shape) {
  uint64_t product = 1;
  bool is_empty = false;
  for (const int64_t dim : shape) {
    is_empty = is_empty || dim == 0;
    product = checked_mul(product, static_cast<uint64_t>(std::max<int64_t>(dim, 1)), "pickle: elements of an array");
  }
  if (product > INT64_MAX) corrupt("elements of an array: expected at most ", INT64_MAX, ", got ", product);
  return is_empty ? 0 : product;
}

Order order_of(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  if (std::ranges::find(shape, 0) != shape.end()) return Order::c;
  const auto is_gapless = [&](bool fortran) {
    int64_t expected = 1;
    for (size_t i = 0; i < shape.size(); ++i) {
      const size_t axis = fortran ? i : shape.size() - 1 - i;
      if (shape[axis] == 1) continue;
      if (strides[axis] != expected) return false;
      expected *= shape[axis];
    }
    return true;
  };
  if (is_gapless(false)) return Order::c;
  return is_gapless(true) ? Order::fortran : Order::strided;
}

uint8_t add_extents(State& state, const Cell& tuple, std::string_view what) {
  expect_kind(tuple, Kind::tuple, what);
  const std::span<const Cell> numbers = state.items(tuple);
  if (numbers.size() > kMaxRank) corrupt(what, ": expected at most ", kMaxRank, " dimensions, got ", numbers.size());
  for (const Cell& number : numbers) {
    expect_kind(number, Kind::integer, what);
    if (number.integer < 0) corrupt(what, ": expected at least 0, got ", number.integer);
    state.tree.extents.push_back(number.integer);
  }
  return static_cast<uint8_t>(numbers.size());
}

Cell numpy_reconstruct(State& state, std::span<const Cell> arguments) {
  expect_count(arguments, 3, 3, "_reconstruct");
  if (!is_global(arguments[0], Global::ndarray)) {
    unsafe("_reconstruct: expected numpy.ndarray, got ", describe(arguments[0]));
  }
  expect_kind(arguments[1], Kind::tuple, "_reconstruct");
  const std::span<const Cell> shape = state.items(arguments[1]);
  const bool is_usual = shape.size() == 1 && is_integer(shape[0], 0) && arguments[2].kind() == Kind::bytes &&
                        as_text(arguments[2].bytes()) == "b";
  if (!is_usual) corrupt("_reconstruct: expected (0,) and b'b', got something else");
  return add_array(state, ArrayNode{});
}

void build_numpy_array(State& state, const Cell& array, const Cell& build_state) {
  expect_kind(build_state, Kind::tuple, "state of an array");
  const std::span<const Cell> entries = state.items(build_state);
  expect_count(entries, 5, 5, "state of an array");
  if (!is_integer(entries[0], 1)) corrupt("state of an array: expected version 1");
  if (state.tree.arrays[array.node].filled) corrupt("BUILD: expected an empty array, got one that is filled");
  const bool fortran = flag_of(entries[3], "order of an array");
  state.tree.arrays[array.node] = make_array(state, {entries[1], entries[2], entries[4], fortran});
}

Cell numpy_from_buffer(State& state, std::span<const Cell> arguments) {
  expect_count(arguments, 4, 5, "_frombuffer");
  const std::string_view order = text_of(arguments[3], "order of an array");
  const bool has_axes = arguments.size() == 5;
  if (order != (has_axes ? "K" : "C") && (has_axes || order != "F")) {
    corrupt("order of an array: expected ", has_axes ? "K" : "C or F", ", got ", excerpt(order));
  }
  ArrayNode array = make_array(state, {arguments[2], arguments[1], arguments[0], order == "F"});
  if (has_axes) {
    permute(state, array, arguments[4]);
    set_order(state, array);
  }
  return add_array(state, array);
}

Cell numpy_array(State& state, std::span<const Cell> arguments) {
  expect_count(arguments, 3, 3, "numpy.ndarray");
  state.tree.types.push_back(parse_type_text(text_of(arguments[1], "numpy.ndarray")));
  const Cell type = Cell::make(Kind::dtype, state.tree.types.size() - 1);
  return add_array(state, make_array(state, {arguments[0], type, arguments[2], false}));
}

Cell numpy_scalar(State& state, std::span<const Cell> arguments) {
  expect_count(arguments, 2, 2, "scalar");
  ArrayNode array{.type = type_of(state, arguments[0], "scalar"), .filled = true};
  array.first_extent = static_cast<uint32_t>(state.tree.extents.size());
  const ElementType& type = state.tree.types[array.type];
  if (type.kind == ElementKind::object) unsafe("scalar: expected plain data, got object");
  expect_kind(arguments[1], Kind::bytes, "scalar");
  fill_bytes(type, array, arguments[1].bytes(), 1);
  return add_array(state, array, Kind::scalar);
}

}  // namespace atompack::pickle
