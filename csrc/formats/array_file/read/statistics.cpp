#include "formats/array_file/read/statistics.h"

#include <cerrno>
#include <filesystem>

#include "formats/array_file/layer/archive_writer.h"
#include "formats/array_file/layer/limits.h"
#include "formats/array_file/layer/records.h"
#include "formats/array_file/layer/trailer.h"
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

void check_entry(ArchiveCheck& check, uint64_t at) {
  check.text(at + kName, "array name");
  check_extreme(check, at + kMin);
  check_extreme(check, at + kMax);
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

// Positions of the targets of an entry.
struct ExtremePlaces {
  uint64_t name = 0, min = 0, max = 0;
};

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

StatisticsList parse_statistics(Bytes file) {
  const Bytes bytes = split_file(file, kStatisticsMagic).archive;
  if (bytes.size() < kRoot.bytes || bytes.size() % kRoot.alignment != 0) {
    throw CorruptFileError(
        cat("statistics: expected at least ", kRoot.bytes, " bytes in whole eights, got ", bytes.size()));
  }
  const uint64_t root = bytes.size() - kRoot.bytes;
  ArchiveCheck check(bytes, root);
  check.vector(root, kEntry, "entries", [&](uint64_t at) { check_entry(check, at); });
  const Archive archive(bytes);
  const Run entries = archive.run(root);
  StatisticsList found;
  for (uint64_t i = 0; i < entries.count; ++i) {
    const uint64_t at = entries.at + i * kEntry.bytes;
    found.emplace_back(archive.text(at + kName), ArrayStatistics{.min = load_extreme(bytes, at + kMin),
                                                                 .max = load_extreme(bytes, at + kMax),
                                                                 .n_null = archive.load<uint64_t>(at + kNull),
                                                                 .n_rows = archive.load<uint64_t>(at + kRows)});
  }
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

std::vector<std::byte> encode_statistics(const StatisticsList& statistics) {
  ArchiveWriter archive;
  std::vector<ExtremePlaces> children;
  children.reserve(statistics.size());
  for (const auto& [name, entry] : statistics) {
    const uint64_t name_at = archive.put_long_string(name);
    const uint64_t min_at = put_long_extreme(archive, entry.min);
    children.push_back({name_at, min_at, put_long_extreme(archive, entry.max)});
  }
  const Run entries{archive.pad(kEntry.alignment), statistics.size()};
  for (size_t i = 0; i < statistics.size(); ++i) {
    const auto& [name, entry] = statistics[i];
    archive.put_string(name, children[i].name);
    put_extreme(archive, entry.min, children[i].min);
    put_extreme(archive, entry.max, children[i].max);
    archive.put(entry.n_null);
    archive.put(entry.n_rows);
  }
  archive.put_run(entries);
  return with_trailer(archive.take(), kStatisticsMagic);
}

}  // namespace atompack::array_file
