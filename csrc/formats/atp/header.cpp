#include "formats/atp/header.h"

#include <optional>

#include "codec/checksums.h"
#include "formats/atp/index.h"
#include "formats/atp/schema.h"
#include "io/byte_source.h"

namespace atompack::atp {
namespace {

constexpr uint32_t kMagic = 0x4B505441;  // "ATPK"
constexpr size_t kChecksumAt = Header::kEncodedSize - 4;

void check_magic_and_version(Bytes slot) {
  ByteCursor cursor(slot);
  if (cursor.read_le<uint32_t>("magic") != kMagic) throw CorruptFileError("magic: expected 'ATPK'", 0);
  const auto version = cursor.read_le<uint32_t>("file version");
  if (version != Header::kFileVersion) {
    throw UnsupportedFormatError(cat("file version: expected ", Header::kFileVersion, ", got ", version), 4);
  }
}

// Either both are 0, or the range is after the data start and inside the file.
void check_range(const char* what, uint64_t offset, uint64_t length, uint64_t data_start, uint64_t file_size) {
  if (offset == 0 && length == 0) return;
  if (offset < data_start || offset > file_size || length == 0 || length > file_size - offset) {
    throw_corrupt(what, ": expected a range between ", data_start, " and ", file_size, ", got ", length, " bytes at ",
                  offset);
  }
}

bool index_agrees_with_count(const Header& header) {
  if (header.index_length == 0) return header.n_molecules == 0;
  if (header.index_length < IndexEntry::kFirstAt) return false;
  const uint64_t entries_length = header.index_length - IndexEntry::kFirstAt;
  return entries_length % IndexEntry::kEncodedSize == 0 &&
         entries_length / IndexEntry::kEncodedSize == header.n_molecules;  // a product could overflow
}

void check_ranges(const Header& header, uint64_t file_size) {
  if (header.data_start < 2 * Header::kEncodedSize || header.data_start > file_size) {
    throw CorruptFileError(cat("data start: expected 8192 to ", file_size, ", got ", header.data_start), 16);
  }
  check_range("schema", header.schema_offset, header.schema_length, header.data_start, file_size);
  check_range("index", header.index_offset, header.index_length, header.data_start, file_size);
  if (!index_agrees_with_count(header)) {
    throw CorruptFileError(cat("index length: expected 8 + 20 x ", header.n_molecules, ", got ", header.index_length),
                           32);
  }
}

void check_contents(const Header& header, const io::ByteSource& file) {
  read_schema(file, header);  // for its checks
  if (header.index_length == 0) return;
  io::RangeBuffer buffer;
  const Bytes count = file.bytes(header.index_offset, sizeof(uint64_t), buffer);
  if (const auto n = load_le<uint64_t>(count.data()); n != header.n_molecules) {
    throw CorruptFileError(cat("index count: expected ", header.n_molecules, ", got ", n), header.index_offset);
  }
}

}  // namespace

Header Header::decode(Bytes slot, uint64_t file_size) {
  check_magic_and_version(slot);
  const auto stored = load_le<uint32_t>(slot.data() + kChecksumAt);
  const uint32_t computed = codec::adler32(slot.first(kChecksumAt));
  if (stored != computed) throw CorruptFileError(cat("checksum: expected ", computed, ", got ", stored), kChecksumAt);

  ByteCursor cursor(slot.subspan(8));
  Header header;
  header.generation = cursor.read_le<uint64_t>("generation");
  header.data_start = cursor.read_le<uint64_t>("data start");
  header.index_offset = cursor.read_le<uint64_t>("index offset");
  header.index_length = cursor.read_le<uint64_t>("index length");
  header.n_molecules = cursor.read_le<uint64_t>("number of molecules");
  const auto codec = cursor.read_le<uint8_t>("codec");
  if (codec > 2) throw CorruptFileError(cat("codec: expected 0, 1 or 2, got ", int{codec}), 48);
  header.codec = static_cast<codec::Codec>(codec);
  cursor.take(3, "zeros");
  header.level = cursor.read_le<int32_t>("codec level");
  header.record_format = cursor.read_le<uint32_t>("record format");
  header.schema_offset = cursor.read_le<uint64_t>("schema offset");
  header.schema_length = cursor.read_le<uint64_t>("schema length");
  check_ranges(header, file_size);
  return header;
}

std::array<std::byte, Header::kEncodedSize> Header::encode() const {
  std::array<std::byte, kEncodedSize> slot{};
  std::byte* at = slot.data();
  at = store_le(at, kMagic);
  at = store_le(at, kFileVersion);
  for (const uint64_t number : {generation, data_start, index_offset, index_length, n_molecules}) {
    at = store_le(at, number);
  }
  at = store_le(at, static_cast<uint32_t>(codec));  // one byte, and three zeros
  at = store_le(at, level);
  at = store_le(at, record_format);
  at = store_le(at, schema_offset);
  at = store_le(at, schema_length);
  store_le(slot.data() + kChecksumAt, codec::adler32(Bytes(slot).first(kChecksumAt)));
  return slot;
}

void check_record_format(const Header& header) {
  if (header.record_format != 2 && header.record_format != 3) {
    throw UnsupportedFormatError(cat("record format: expected 2 or 3, got ", header.record_format), 56);
  }
}

Header choose_header(Bytes slots, uint64_t file_size) {
  constexpr size_t kBoth = 2 * Header::kEncodedSize;
  if (slots.size() < kBoth) throw CorruptFileError(cat("header: expected ", kBoth, " bytes, got ", slots.size()), 0);
  check_magic_and_version(slots);  // of slot A, whatever slot B contains

  std::array<std::optional<Header>, 2> valid;
  std::array<std::string, 2> why;
  for (size_t i = 0; i < 2; ++i) {
    try {
      valid[i] = Header::decode(slots.subspan(i * Header::kEncodedSize, Header::kEncodedSize), file_size);
    } catch (DataError& error) {
      why[i] = error.shift_offset(i * Header::kEncodedSize).what();
    }
  }
  if (!valid[0] && !valid[1]) throw_corrupt("no valid header slot: slot A: ", why[0], "; slot B: ", why[1]);
  if (!valid[1] || (valid[0] && valid[0]->generation >= valid[1]->generation)) return *valid[0];
  return *valid[1];
}

Snapshot take_snapshot(const io::Location& location) {
  const auto file = io::open_file(location);
  Snapshot snapshot{file->identity(), {}};
  std::array<std::byte, 2 * Header::kEncodedSize> slots{};
  const size_t got = file->read_at(0, slots);
  in_file(file->path(), [&] {
    snapshot.header = choose_header(Bytes(slots).first(got), snapshot.identity.size);
    check_record_format(snapshot.header);
    check_contents(snapshot.header, io::FileRanges(file, snapshot.header.committed_end()));
  });
  return snapshot;
}

}  // namespace atompack::atp
