// Inspection of a file beyond its molecules: the state of its header slots, and its use of space.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "formats/atp/header.h"
#include "formats/atp/reader.h"

namespace atompack::atp {

// One slot by itself: its header, or the error in it.
struct SlotState {
  std::optional<Header> header;
  std::string problem;
};

// Slots A and B of a file, however damaged; throws only IoError.
std::array<SlotState, 2> describe_slots(const io::Location& location);

// Sums over the index entries of one generation. Entries that point outside the file count only towards the atoms.
struct SpaceUse {
  uint64_t schema_bytes = 0;
  uint64_t index_bytes = 0;
  uint64_t n_atoms = 0;
  uint64_t stored_bytes = 0;   // stored size of the records
  uint64_t decoded_bytes = 0;  // decoded size of the records, by the index
  uint64_t record_area = 0;    // from the data start to the end of the commit, without its schema and index
  // Bytes that no commit refers to any more; nullopt if records overlap.
  std::optional<uint64_t> dead_bytes() const {
    return stored_bytes > record_area ? std::nullopt : std::optional(record_area - stored_bytes);
  }
};

SpaceUse measure_space(const io::Location& location, const Snapshot& snapshot);

// Comparison of the records of two files.

// Throws CorruptFileError unless molecules `first`, `first` + 1, ... of `copy` equal those of `original`
// at `indices` once they are decompressed.
void check_same_records(const Reader& original, std::span<const int64_t> indices, const Reader& copy, int64_t first);

}  // namespace atompack::atp
