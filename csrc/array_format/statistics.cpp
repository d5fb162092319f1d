#include "array_format/statistics.h"

#include <filesystem>

#include "array_format/records.h"
#include "array_format/trailer.h"
#include "io/mapped_file.h"

namespace atompack::array_format {
namespace {

constexpr Layout kRoot{16, 8};
constexpr Layout kEntry{96, 8};
constexpr uint64_t kName = 0, kMin = 16, kMax = 48, kNull = 80, kRows = 88;
constexpr uint64_t kValue = 8;  // behind the tag of the option
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

}  // namespace

Statistics parse_statistics(Bytes file) {
  const Bytes bytes = split_file(file, "ARST").archive;
  if (bytes.size() < kRoot.bytes || bytes.size() % kRoot.alignment != 0) {
    throw CorruptFileError(
        cat("statistics: expected at least ", kRoot.bytes, " bytes in whole eights, got ", bytes.size()));
  }
  const uint64_t root = bytes.size() - kRoot.bytes;
  ArchiveCheck check(bytes, root);
  check.vector(root, kEntry, "entries", [&](uint64_t at) { check_entry(check, at); });
  const Archive archive(bytes);
  const Run entries = archive.run(root);
  Statistics found;
  for (uint64_t i = 0; i < entries.count; ++i) {
    const uint64_t at = entries.at + i * kEntry.bytes;
    found[std::string(archive.text(at + kName))] = {.min = load_extreme(bytes, at + kMin),
                                                    .max = load_extreme(bytes, at + kMax),
                                                    .n_null = archive.load<uint64_t>(at + kNull),
                                                    .n_rows = archive.load<uint64_t>(at + kRows)};
  }
  return found;
}

Statistics read_statistics(const std::string& base_path) {
  const std::string path = std::filesystem::path(base_path).replace_extension(".stats").string();
  if (!io::exists(path)) return {};
  io::UniqueFd fd = io::open_for_reading(path);
  const uint64_t bytes = io::identify(fd.get(), path).size;
  const io::MappedFile file(std::move(fd), bytes, path, io::Access::sequential, false);
  try {
    return parse_statistics(file.bytes());
  } catch (const CorruptFileError&) {
    return {};
  }
}

}  // namespace atompack::array_format
