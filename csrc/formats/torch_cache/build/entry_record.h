// Record that a builder keeps of each written entry: enough to make indexes and references at the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace atompack::torch_cache {

struct EntryRecord {
  uint64_t address = 0;  // of the entry's collection
  uint32_t structure_bytes = 0;
  int32_t n_atoms = 0;
  double energy = 0;  // NaN: absent
  bool has_forces = false;
  bool has_derivatives = false;
  int64_t n_edges = 0, n_triplets = 0;
  std::string name;
};

// Object numbers in a collection; derivatives in the order of Column.
inline constexpr uint32_t kStructureObject = 1, kFeaturesObject = 2, kFirstDerivativeObject = 3;

void append_record(const EntryRecord& record, std::vector<std::byte>& to);
EntryRecord read_record(ByteCursor& cursor);

}  // namespace atompack::torch_cache
