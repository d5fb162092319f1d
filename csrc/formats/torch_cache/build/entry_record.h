// The record that a builder keeps of each entry written: enough to make indexes and references of it at the end.
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
  double energy = 0;  // NaN: there is none
  bool has_forces = false;
  bool has_derivatives = false;
  int64_t n_edges = 0, n_triplets = 0;
  std::string name;
};

// Objects of a collection, by their numbers; derivatives in the order of Column.
inline constexpr uint32_t kStructureObject = 1, kFeaturesObject = 2, kFirstDerivativeObject = 3;

void append_record(const EntryRecord& record, std::vector<std::byte>& to);
EntryRecord read_record(ByteCursor& cursor);

}  // namespace atompack::torch_cache
