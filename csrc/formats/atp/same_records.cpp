#include "formats/atp/same_records.h"

#include <algorithm>
#include <vector>

namespace atompack::atp {
namespace {

Bytes decoded(const Reader& reader, int64_t index, std::vector<std::byte>& scratch) {
  const MoleculeExtent extent = reader.extent(index);
  if (reader.needs_scratch(index)) scratch.resize(static_cast<size_t>(extent.decoded_bytes));
  return reader.decode(index, scratch);
}

}  // namespace

void check_same_records(const Reader& original, std::span<const int64_t> indices, const Reader& copy, int64_t first) {
  std::vector<std::byte> scratch;
  std::vector<std::byte> copy_scratch;
  for (size_t i = 0; i < indices.size(); ++i) {
    const int64_t index = first + static_cast<int64_t>(i);
    const bool same_atoms = original.extent(indices[i]).n_atoms == copy.extent(index).n_atoms;
    if (same_atoms && std::ranges::equal(decoded(original, indices[i], scratch), decoded(copy, index, copy_scratch))) {
      continue;
    }
    CorruptFileError error(cat("record: differs from that of molecule ", indices[i], " of ", original.path()));
    copy.locate(error, index);
    throw error;
  }
}

}  // namespace atompack::atp
