#include "formats/array_file/read/statistics.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>
#include <type_traits>

#include "formats/array_file/layer/archive.h"
#include "formats/array_file/layer/number_type.h"
#include "formats/array_file/read/reader.h"
#include "io/open_file.h"

namespace atompack::array_file {
namespace {

constexpr Layout kRoot{16, 8};
constexpr Layout kEntry{96, 8};
constexpr uint64_t kName = 0, kMin = 16, kMax = 48, kNull = 80, kRows = 88;
constexpr uint64_t kValue = 8;  // after the tag of the option
constexpr uint8_t kExtremes = 5, kBytesTag = 3;

void check_extreme(ArchiveCheck& check, uint64_t at) {
  const bool present = check.tag(at, 2, "option of an extreme") == 1;
  if (!present) return;
  const uint8_t tag = check.tag(at + kValue, kExtremes, "tag of an extreme");
  if (tag == kBytesTag) check.integers(at + kValue + TaggedLayout::kPayload, {1, 1}, "extreme");
}

std::string bytes_of(Bytes bytes, Run run) { return std::string(as_text(bytes.subspan(run.at, run.count))); }

std::optional<Extreme> load_extreme(Bytes bytes, uint64_t at) {
  const Archive archive(bytes);
  if (archive.load<uint8_t>(at) == 0) return std::nullopt;
  const uint64_t payload = at + kValue + TaggedLayout::kPayload;
  switch (archive.load<uint8_t>(at + kValue)) {
    case 0:
      return archive.load<int64_t>(payload);
    case 1:
      return archive.load<uint64_t>(payload);
    case 2:
      return archive.load<double>(payload);
    case kBytesTag:
      return bytes_of(bytes, archive.run(payload));
    default:
      return Timestamp{archive.load<int64_t>(payload)};
  }
}

uint64_t put_long_extreme(ArchiveWriter& archive, const std::optional<Extreme>& extreme) {
  const auto* const bytes = extreme ? std::get_if<std::string>(&*extreme) : nullptr;
  return bytes != nullptr ? archive.put_bytes(as_bytes(*bytes)) : archive.size();
}

// An option: its tag and value.
void put_extreme(ArchiveWriter& archive, const std::optional<Extreme>& extreme, uint64_t bytes_at) {
  archive.put(uint64_t{extreme.has_value()});
  if (!extreme) return archive.zeros(TaggedLayout::kLayout.bytes);
  archive.put(uint64_t{extreme->index()});
  const auto put_payload = [&]<typename T>(const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      archive.put_run({bytes_at, value.size()});
    } else if constexpr (std::is_same_v<T, Timestamp>) {
      archive.put(value.nanoseconds);
    } else {
      archive.put(value);
    }
  };
  std::visit(put_payload, *extreme);
  if (!std::holds_alternative<std::string>(*extreme)) archive.zeros(sizeof(uint64_t));
}

}  // namespace

void check_statistics(ArchiveCheck& check, uint64_t at) {
  check.text(at + kName, "array name");
  check_extreme(check, at + kMin);
  check_extreme(check, at + kMax);
}

std::pair<std::string, ArrayStatistics> statistics_at(Bytes bytes, uint64_t at) {
  const Archive archive(bytes);
  return {std::string(archive.text(at + kName)),
          {.min = load_extreme(bytes, at + kMin),
           .max = load_extreme(bytes, at + kMax),
           .n_null = archive.load<uint64_t>(at + kNull),
           .n_rows = archive.load<uint64_t>(at + kRows)}};
}

StatisticsList parse_statistics(Bytes file) {
  const Bytes bytes = split_file(file, kStatisticsMagic).archive;
  if (bytes.size() < kRoot.bytes || bytes.size() % kRoot.alignment != 0) {
    throw CorruptFileError(
        cat("statistics: expected at least ", kRoot.bytes, " bytes in whole eights, got ", bytes.size()));
  }
  const uint64_t root = bytes.size() - kRoot.bytes;
  ArchiveCheck check(bytes, root);
  check.vector(root, kEntry, "entries", [&](uint64_t at) { check_statistics(check, at); });
  const Archive archive(bytes);
  const Run entries = archive.run(root);
  StatisticsList found;
  for (uint64_t i = 0; i < entries.count; ++i) found.push_back(statistics_at(bytes, entries.at + i * kEntry.bytes));
  return found;
}

std::string statistics_path(const std::string& base_path) {
  return std::filesystem::path(base_path).replace_extension(".stats").string();
}

StatisticsList list_statistics(const io::Location& base) {
  const auto stored = io::find_file(base.at(statistics_path(base.path())));
  if (!stored) return {};
  const std::vector<std::byte> file = io::read_whole(*stored, kMaxMetadataBytes);
  try {
    return parse_statistics(file);
  } catch (const CorruptFileError&) {
    return {};
  }
}

Statistics read_statistics(const io::Location& base) {
  Statistics found;
  for (auto& [name, statistics] : list_statistics(base)) found[std::move(name)] = std::move(statistics);
  return found;
}

StatisticsTargets put_targets(ArchiveWriter& archive, std::string_view name, const ArrayStatistics& statistics) {
  StatisticsTargets at;
  at.name = archive.put_long_string(name);
  at.min = put_long_extreme(archive, statistics.min);
  at.max = put_long_extreme(archive, statistics.max);
  return at;
}

void put_statistics(ArchiveWriter& archive, std::string_view name, const ArrayStatistics& statistics,
                    const StatisticsTargets& at) {
  archive.put_string(name, at.name);
  put_extreme(archive, statistics.min, at.min);
  put_extreme(archive, statistics.max, at.max);
  archive.put(statistics.n_null);
  archive.put(statistics.n_rows);
}

std::vector<std::byte> encode_statistics(const StatisticsList& statistics) {
  ArchiveWriter archive;
  std::vector<StatisticsTargets> targets;
  targets.reserve(statistics.size());
  for (const auto& [name, entry] : statistics) targets.push_back(put_targets(archive, name, entry));
  const Run entries{archive.pad(kEntry.alignment), statistics.size()};
  for (size_t i = 0; i < statistics.size(); ++i) {
    put_statistics(archive, statistics[i].first, statistics[i].second, targets[i]);
  }
  archive.put_run(entries);
  return with_trailer(archive.take(), kStatisticsMagic);
}

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
  with_number_of(type_, [&]<typename T>(T) {
    if constexpr (!std::is_same_v<T, std::monostate>) add_items<T>(values);
  });
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
