#include "formats/array_file/read/array.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/checked_math.h"

namespace atompack::array_file {
namespace {

// True if a fill value of type F applies to elements of type T; other combinations leave them 0.
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

const StoredChunk* Array::chunk_of(uint64_t cell) const {
  const auto found = std::ranges::lower_bound(chunks, cell, {}, &StoredChunk::cell);
  return found != chunks.end() && found->cell == cell ? &*found : nullptr;
}

void check_extent(const Array& array) {
  if (array.shape.size() > kMaxAxes) {
    throw UnsupportedFormatError(cat("axes: expected at most ", kMaxAxes, ", got ", array.shape.size()));
  }
  uint64_t bytes = std::max<uint64_t>(item_bytes(array.type), 1);
  for (const uint64_t extent : array.shape) {
    // Checked even if another axis is empty: no product of some of the axes overflows.
    if (extent > 0) bytes = checked_mul(bytes, extent, "bytes of the array");
  }
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  if (bytes > kMax) throw CorruptFileError(cat("bytes of the array: expected at most ", kMax, ", got ", bytes));
}

std::array<std::byte, 8> fill_item(Type type, const std::optional<Fill>& fill) {
  if (!fill) return {};
  switch (type) {
    case Type::int8:
    case Type::uint8:
      return item_of<uint8_t>(*fill);
    case Type::int16:
    case Type::uint16:
      return item_of<uint16_t>(*fill);
    case Type::int32:
    case Type::uint32:
      return item_of<uint32_t>(*fill);
    case Type::int64:
    case Type::uint64:
      return item_of<uint64_t>(*fill);
    case Type::float32:
      return item_of<float>(*fill);
    case Type::float64:
      return item_of<double>(*fill);
    case Type::timestamp:
      return timestamp_item(*fill);
    default:
      return {};
  }
}

}  // namespace atompack::array_file
