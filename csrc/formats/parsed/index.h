// Index of a file whose molecules are parsed from text: where each one is, its size, and the survey of all fields.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "formats/parsed/survey.h"

namespace atompack::parsed {

struct IndexEntry {
  uint64_t place, bytes;  // range of the file
  uint64_t n_atoms;
  uint64_t record_bytes;  // upper bound of the parsed record; see record.h
};

// Size and time of the last change of the file, by which an index is known to be out of date.
struct FileStamp {
  uint64_t bytes = 0;
  int64_t seconds = 0, nanoseconds = 0;
  bool operator==(const FileStamp&) const = default;
};

struct Index {
  FileStamp stamp;
  std::vector<IndexEntry> entries;
  uint32_t max_ratio = 1;  // of the text to the bytes of the file, at most: more than 1 if they are compressed
  bool ends_open = false;  // the last line has no line end
  Survey survey;

  // `out` has one place for each molecule.
  void copy_atom_counts(std::span<int64_t> out) const;
};

// Encodes an index as a file: FORMAT.md.
std::vector<std::byte> encode_index(const Index& index);

// Size and time of the file that an index was made for, from its first kIndexHeadBytes. Throws CorruptFileError.
inline constexpr uint64_t kIndexHeadBytes = 40;
FileStamp stamp_of_index(Bytes head);
// True if these are the first bytes of an index of a file of this size and time.
bool is_index_of(Bytes head, const FileStamp& file);

// Throws CorruptFileError unless the bytes are a whole index, by its checksum.
Index decode_index(Bytes bytes);

// Maximum size of a parsed record: a key of one character may have a value of one, and takes some 200 bytes.
constexpr uint64_t max_record_bytes(uint64_t bytes, uint64_t max_ratio) { return 4096 + 256 * max_ratio * bytes; }

}  // namespace atompack::parsed
