#include "formats/torch_cache/build/entry_record.h"

namespace atompack::torch_cache {
namespace {

constexpr size_t kFixedBytes = 8 + 4 + 4 + 8 + 1 + 1 + 8 + 8 + 4;

}  // namespace

void append_record(const EntryRecord& record, std::vector<std::byte>& to) {
  const size_t start = to.size();
  to.resize(start + kFixedBytes + record.name.size());
  std::byte* at = to.data() + start;
  at = store_le(at, record.address);
  at = store_le(at, record.structure_bytes);
  at = store_le(at, record.n_atoms);
  at = store_le(at, record.energy);
  at = store_le(at, static_cast<uint8_t>(record.has_forces));
  at = store_le(at, static_cast<uint8_t>(record.has_derivatives));
  at = store_le(at, record.n_edges);
  at = store_le(at, record.n_triplets);
  at = store_le(at, static_cast<uint32_t>(record.name.size()));
  store(at, as_bytes(record.name));
}

EntryRecord read_record(ByteCursor& cursor) {
  EntryRecord record;
  record.address = cursor.read_le<uint64_t>("address");
  record.structure_bytes = cursor.read_le<uint32_t>("structure");
  record.n_atoms = cursor.read_le<int32_t>("n_atoms");
  record.energy = cursor.read_le<double>("energy");
  record.has_forces = cursor.read_le<uint8_t>("has_forces") != 0;
  record.has_derivatives = cursor.read_le<uint8_t>("has_derivatives") != 0;
  record.n_edges = cursor.read_le<int64_t>("n_edges");
  record.n_triplets = cursor.read_le<int64_t>("n_triplets");
  record.name = std::string(as_text(cursor.take(cursor.read_le<uint32_t>("name length"), "name")));
  return record;
}

}  // namespace atompack::torch_cache
