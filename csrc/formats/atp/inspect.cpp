#include "formats/atp/inspect.h"

#include <algorithm>
#include <vector>

#include "formats/atp/index.h"

namespace atompack::atp {

std::array<SlotState, 2> describe_slots(const io::Location& location) {
  const auto file = io::open_file(location);
  const uint64_t file_size = file->size();
  std::array<SlotState, 2> slots;
  for (size_t i = 0; i < slots.size(); ++i) {
    std::array<std::byte, Header::kEncodedSize> bytes{};
    const size_t got = file->read_at(i * bytes.size(), bytes);
    try {
      if (got < bytes.size()) throw_corrupt("header slot: expected ", bytes.size(), " bytes, got ", got);
      slots[i].header = Header::decode(bytes, file_size);
    } catch (DataError& error) {
      slots[i].problem = error.shift_offset(i * bytes.size()).what();
    }
  }
  return slots;
}

SpaceUse measure_space(const io::Location& location, const Snapshot& snapshot) {
  const Header& header = snapshot.header;
  const uint64_t end = header.committed_end();
  SpaceUse use{header.schema_length, header.index_length};
  const uint64_t area = end - header.data_start;
  use.record_area = area - std::min(use.schema_bytes + use.index_bytes, area);  // in a damaged file these may overlap
  if (header.n_molecules == 0) return use;
  const io::FileRanges file(open_snapshot(location, snapshot), end);
  for_each_entry(file, header, [&](const IndexEntry& entry) {
    use.n_atoms += entry.n_atoms;  // n_molecules entries fit in the file, so no sum overflows
    if (!entry.is_between(header.data_start, end)) return;
    use.stored_bytes += entry.stored_bytes;
    use.decoded_bytes += entry.decoded_bytes;
  });
  return use;
}

void check_same_records(const Reader& original, std::span<const int64_t> indices, const Reader& copy, int64_t first) {
  std::vector<std::byte> scratch;
  std::vector<std::byte> copy_scratch;
  for (size_t i = 0; i < indices.size(); ++i) {
    const int64_t index = first + static_cast<int64_t>(i);
    const MoleculeExtent extent = original.extent(indices[i]), copied = copy.extent(index);
    if (extent.n_atoms == copied.n_atoms &&
        std::ranges::equal(decode(original, indices[i], extent, scratch), decode(copy, index, copied, copy_scratch))) {
      continue;
    }
    copy.located(index,
                 [&] { throw_corrupt("record: differs from that of molecule ", indices[i], " of ", original.path()); });
  }
}

}  // namespace atompack::atp
