#include "formats/parsed/source.h"

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "formats/parsed/record.h"

namespace atompack::parsed {

Bytes RecordSource::decode(int64_t index, std::span<std::byte> scratch) const {
  return located(index, [&] { return parse(index, scratch); });
}

void RecordSource::visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const {
  located(index, [&] { visit_record(record, fields_->schema(), visitor); });
}

void IndexedSource::prepare(std::span<const int64_t> indices) const {
  bytes().check_not_shrunk();
  if (bytes().is_sample_due()) sample(indices);
}

void IndexedSource::announce(std::span<const int64_t> indices) const {
  if (bytes().window() == 0) return;
  bytes().check_not_shrunk();
  sample(indices);
  if (bytes().window() > 0) bytes().announce(ranges_of(indices));
}

// Finds out whether the file is in memory.
void IndexedSource::sample(std::span<const int64_t> indices) const {
  constexpr size_t kMaxSampled = 8;
  bytes().sample(ranges_of(indices.first(std::min(indices.size(), kMaxSampled))));
}

std::vector<io::ByteRange> IndexedSource::ranges_of(std::span<const int64_t> indices) const {
  std::vector<io::ByteRange> ranges;
  for (const int64_t index : indices) ranges.push_back({entry(index).place, entry(index).bytes});
  return ranges;
}

MoleculeExtent IndexedSource::extent(int64_t index) const {
  const IndexEntry& found = entry(index);
  return {.n_atoms = static_cast<int64_t>(found.n_atoms),
          .decoded_bytes = static_cast<int64_t>(found.record_bytes),
          .work = work_of_byte_ * static_cast<int64_t>(found.bytes)};
}

std::shared_ptr<const io::OpenFile> open_unchanged(const io::Location& location, const io::FileVersion& version,
                                                   const std::string& name) {
  auto file = io::open_file(location);
  if (file->version() != version) {
    throw IoError(ESTALE, "the file was changed since it was opened; refresh() reads it again", name);
  }
  return file;
}

}  // namespace atompack::parsed
