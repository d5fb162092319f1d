// Inspection of a file beyond its molecules: the state of its header slots, and its use of space.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "formats/atp/header.h"

namespace atompack::atp {

// One slot on its own: its header, or what is wrong with it.
struct SlotState {
  std::optional<Header> header;
  std::string problem;
};

// Slots A and B of a file, however broken; throws IoError alone.
std::array<SlotState, 2> describe_slots(const std::string& path);

// Sums over the index entries of one generation. Of entries that point out of the file only the atoms count.
struct SpaceUse {
  uint64_t schema_bytes = 0;
  uint64_t index_bytes = 0;
  uint64_t n_atoms = 0;
  uint64_t stored_bytes = 0;   // of the records, as they lie in the file
  uint64_t decoded_bytes = 0;  // of the records, as the index gives it
  uint64_t record_area = 0;    // from the data start to the commit's end, less its schema and index
  // What older commits left behind; absent where records lie over one another.
  std::optional<uint64_t> dead_bytes() const {
    return stored_bytes > record_area ? std::nullopt : std::optional(record_area - stored_bytes);
  }
};

SpaceUse measure_space(const std::string& path, const Snapshot& snapshot);

}  // namespace atompack::atp
