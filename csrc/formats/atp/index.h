// Index entries; FORMAT.md#index. They remain in the mapping and are checked on use.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "model/molecule_source.h"

namespace atompack::atp {

struct IndexEntry {
  static constexpr uint64_t kEncodedSize = 20;
  static constexpr uint64_t kFirstAt = 8;  // after the count

  uint64_t offset;
  uint32_t stored_bytes;
  uint32_t decoded_bytes;
  uint32_t n_atoms;

  static IndexEntry decode(const std::byte* at) {
    return {load_le<uint64_t>(at), load_le<uint32_t>(at + 8), load_le<uint32_t>(at + 12), load_le<uint32_t>(at + 16)};
  }

  void encode(std::byte* at) const {
    store_le(store_le(store_le(store_le(at, offset), stored_bytes), decoded_bytes), n_atoms);
  }

  bool is_between(uint64_t data_start, uint64_t committed_end) const {
    return offset >= data_start && offset <= committed_end && stored_bytes <= committed_end - offset;
  }

  // Throws CorruptFileError unless the record is within these bounds.
  void validate(uint64_t data_start, uint64_t committed_end) const {
    if (!is_between(data_start, committed_end)) {
      throw_corrupt("index entry: expected a record between ", data_start, " and ", committed_end, ", got ",
                    stored_bytes, " bytes at ", offset);
    }
  }
};

// Fields of a file without schema (release 0.2.x), found by reading every record once.

// Sorted by (scope, key). The type is that of the first record that has the field; the shape is set if all records
// agree on it. Unreadable records are skipped: reading them reports the error.
std::vector<FieldDeclaration> scan_fields(const MoleculeSource& source);

}  // namespace atompack::atp
