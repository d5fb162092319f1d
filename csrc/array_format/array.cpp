#include "array_format/array.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/checked_math.h"

namespace atompack::array_format {
namespace {

// Whether a fill value of type F is used for elements of type T; the others leave them 0.
template <typename T, typename F>
constexpr bool kFills = std::is_same_v<F, int64_t> || std::is_same_v<F, uint64_t> ||
                        (std::is_floating_point_v<T> && std::is_same_v<F, double>);

template <typename T>
std::array<std::byte, 8> item_of(const Fill& fill) {
  std::array<std::byte, 8> item{};
  std::visit(
      [&]<typename F>(const F& value) {
        if constexpr (kFills<T, F>) store_le(item.data(), static_cast<T>(value));
      },
      fill);
  return item;
}

std::array<std::byte, 8> timestamp_item(const Fill& fill) {
  if (const auto* const timestamp = std::get_if<Timestamp>(&fill)) return item_of<int64_t>(timestamp->nanoseconds);
  return std::holds_alternative<int64_t>(fill) ? item_of<int64_t>(fill) : std::array<std::byte, 8>{};
}

}  // namespace

uint64_t Array::n_elements() const { return whole().n_elements(); }

Box Array::cell_box(const std::vector<uint64_t>& cell) const {
  Box box{cell, cell};
  for (size_t i = 0; i < cell.size(); ++i) {
    box.start[i] = cell[i] * chunk_shape[i];
    box.count[i] = std::min(chunk_shape[i], shape[i] - box.start[i]);
  }
  return box;
}

std::vector<uint64_t> grid_of(const Array& array) {
  std::vector<uint64_t> grid(array.shape.size(), 0);
  for (size_t i = 0; i < grid.size(); ++i) {
    const uint64_t extent = array.chunk_shape[i];
    if (extent > 0) grid[i] = (array.shape[i] + extent - 1) / extent;
  }
  return grid;
}

void check_extent(const Array& array) {
  if (array.shape.size() > kMostAxes) {
    throw UnsupportedFormatError(cat("axes: expected at most ", kMostAxes, ", got ", array.shape.size()));
  }
  uint64_t bytes = std::max<uint64_t>(item_bytes(array.type), 1);
  for (const uint64_t extent : array.shape) {
    // Also where another axis is empty: no product of some of the axes overflows.
    if (extent > 0) bytes = checked_mul(bytes, extent, "bytes of the array");
  }
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  if (bytes > kMost) throw CorruptFileError(cat("bytes of the array: expected at most ", kMost, ", got ", bytes));
}

std::array<std::byte, 8> fill_item(const Array& array) {
  if (!array.fill) return {};
  switch (array.type) {
    case Type::int8:
    case Type::uint8:
      return item_of<uint8_t>(*array.fill);
    case Type::int16:
    case Type::uint16:
      return item_of<uint16_t>(*array.fill);
    case Type::int32:
    case Type::uint32:
      return item_of<uint32_t>(*array.fill);
    case Type::int64:
    case Type::uint64:
      return item_of<uint64_t>(*array.fill);
    case Type::float32:
      return item_of<float>(*array.fill);
    case Type::float64:
      return item_of<double>(*array.fill);
    case Type::timestamp:
      return timestamp_item(*array.fill);
    default:
      return {};
  }
}

}  // namespace atompack::array_format
