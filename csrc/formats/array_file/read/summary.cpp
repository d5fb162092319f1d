#include "formats/array_file/read/summary.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "formats/array_file/read/read_box.h"

namespace atompack::array_file {
namespace {

// IEEE 754 totalOrder as integers: all bits of negative numbers except the sign are inverted.
template <typename Int>
constexpr Int flip_bits(Int bits) {
  return bits ^ static_cast<Int>(static_cast<std::make_unsigned_t<Int>>(bits >> (8 * sizeof(Int) - 1)) >> 1);
}

template <typename T>
constexpr auto key_of(T value) {
  if constexpr (std::is_same_v<T, float>)
    return flip_bits(std::bit_cast<int32_t>(value));
  else if constexpr (std::is_same_v<T, double>)
    return flip_bits(std::bit_cast<int64_t>(value));
  else
    return value;
}

// Values that are not null. In short ranges, whose counts are narrow enough for the compiler to vectorize.
template <typename T>
struct Range {
  using Key = decltype(key_of(T{}));
  Key min = std::numeric_limits<Key>::max(), max = std::numeric_limits<Key>::min();
  uint64_t n = 0;

  template <typename IsNull>
  void add(Bytes values, const IsNull& is_null) {
    constexpr size_t kStretch = 1 << 14;
    for (size_t at = 0; at < values.size(); at += kStretch) {
      add_stretch(values.subspan(at, std::min(kStretch, values.size() - at)), is_null);
    }
  }

 private:
  using Count = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

  template <typename IsNull>
  void add_stretch(Bytes values, const IsNull& is_null) {
    Key low = min, high = max;
    Count count = 0;
    for (size_t at = 0; at < values.size(); at += sizeof(T)) {
      const T value = load_le<T>(values.data() + at);
      const bool null = is_null(value);
      const Key key = key_of(value);
      low = !null && key < low ? key : low;
      high = !null && key > high ? key : high;
      count += null ? 0 : 1;
    }
    min = low;
    max = high;
    n += count;
  }
};

template <typename T>
Range<T> range_of(Bytes values, std::optional<T> fill) {
  Range<T> range;
  if (!fill) {
    range.add(values, [](T) { return false; });
  } else if (*fill != *fill) {
    range.add(values, [](T value) { return value != value; });
  } else {
    range.add(values, [fill = *fill](T value) { return value == fill; });
  }
  return range;
}

}  // namespace

Summary::Summary(Type type, const std::optional<OwnedFill>& fill)
    : type_(type), has_fill_(fill.has_value()), fill_item_(fill_item(type, view(fill))) {
  if (!holds_strings(type)) return;
  const auto* const text = fill ? std::get_if<std::string>(&*fill) : nullptr;
  has_fill_ = text != nullptr;
  if (has_fill_) fill_string_ = *text;
}

template <typename T>
void Summary::add_items(Bytes values) {
  const std::optional<T> fill = has_fill_ ? std::optional(load_le<T>(fill_item_.data())) : std::nullopt;
  const Range<T> range = range_of(values, fill);
  if (range.n == 0) return;
  using Key = typename Range<T>::Key;
  const bool first = n_values_ == 0;
  min_ = static_cast<int64_t>(first ? range.min : std::min(range.min, static_cast<Key>(min_)));
  max_ = static_cast<int64_t>(first ? range.max : std::max(range.max, static_cast<Key>(max_)));
  n_values_ += range.n;
}

void Summary::add_numbers(Bytes values) {
  switch (type_) {
    case Type::int8:
      return add_items<int8_t>(values);
    case Type::int16:
      return add_items<int16_t>(values);
    case Type::int32:
      return add_items<int32_t>(values);
    case Type::int64:
    case Type::timestamp:
      return add_items<int64_t>(values);
    case Type::uint8:
      return add_items<uint8_t>(values);
    case Type::uint16:
      return add_items<uint16_t>(values);
    case Type::uint32:
      return add_items<uint32_t>(values);
    case Type::uint64:
      return add_items<uint64_t>(values);
    case Type::float32:
      return add_items<float>(values);
    case Type::float64:
      return add_items<double>(values);
    default:
      return;
  }
}

void Summary::add(Bytes chunk, uint64_t n_elements) {
  if (holds_strings(type_)) return add_strings(Strings(chunk, n_elements), n_elements);
  check_chunk_bytes(n_elements * item_bytes(type_), chunk.size());
  add_numbers(chunk);
}

void Summary::add_strings(const Strings& strings, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    const std::string_view text = as_text(strings.at(i));
    if (has_fill_ && text == fill_string_) continue;
    if (n_values_ == 0 || text < min_string_) min_string_ = text;
    if (n_values_ == 0 || text > max_string_) max_string_ = text;
    ++n_values_;
  }
}

ArrayStatistics Summary::statistics(uint64_t n_rows) const {
  return {.min = extreme(min_, min_string_),
          .max = extreme(max_, max_string_),
          .n_null = n_rows - n_values_,
          .n_rows = n_rows};
}

std::optional<Extreme> Summary::extreme(int64_t key, const std::string& text) const {
  if (n_values_ == 0) return std::nullopt;
  switch (type_) {
    case Type::uint8:
    case Type::uint16:
    case Type::uint32:
    case Type::uint64:
      return static_cast<uint64_t>(key);
    case Type::float32:
      return static_cast<double>(std::bit_cast<float>(flip_bits(static_cast<int32_t>(key))));
    case Type::float64:
      return std::bit_cast<double>(flip_bits(key));
    case Type::string:
    case Type::binary:
      return text;
    case Type::timestamp:
      return Timestamp{key};
    default:
      return key;
  }
}

}  // namespace atompack::array_file
