// Header slots of an .atp file; layout in FORMAT.md#header.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "codec/codec.h"
#include "io/open_file.h"

namespace atompack::atp {

// One decoded 4 KiB slot. Plain data.
struct Header {
  static constexpr size_t kEncodedSize = 4096;
  static constexpr uint32_t kFileVersion = 2;

  uint64_t generation = 0;
  uint64_t data_start = 0;
  uint64_t index_offset = 0;
  uint64_t index_length = 0;
  uint64_t n_molecules = 0;
  codec::Codec codec = codec::Codec::none;
  int32_t level = 0;
  uint32_t record_format = 0;
  uint64_t schema_offset = 0;
  uint64_t schema_length = 0;

  // End of the committed data; bytes from here on are not part of the dataset.
  uint64_t committed_end() const {
    return std::max({data_start, schema_offset + schema_length, index_offset + index_length});
  }

  // Offset of this generation's slot.
  uint64_t slot_offset() const { return generation % 2 == 0 ? 0 : kEncodedSize; }

  // Throws CorruptFileError if the slot is not valid for a file of this size.
  static Header decode(Bytes slot, uint64_t file_size);
  std::array<std::byte, kEncodedSize> encode() const;
};

// Returns the newest valid slot, checked as described in FORMAT.md#which-slot-counts. `slots` are the first 8192 bytes,
// or fewer if the file is shorter.
Header choose_header(Bytes slots, uint64_t file_size);

// Throws UnsupportedFormatError for record formats other than 2 and 3.
void check_record_format(const Header& header);

// One generation of one file, which a dataset keeps reading while a writer appends.
struct Snapshot {
  io::FileIdentity identity;
  Header header;
};

// Opens the file, reads its header, checks its schema and the count of its index, and closes it again.
Snapshot take_snapshot(const io::Location& location);

}  // namespace atompack::atp
