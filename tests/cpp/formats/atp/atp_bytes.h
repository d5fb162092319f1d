// Builds .atp bytes piece by piece, right or wrong: nothing is checked here. Layout: csrc/formats/atp/FORMAT.md.
#pragma once

#include <string_view>
#include <vector>

#include "byte_string.h"
#include "codec/checksums.h"
#include "codec/compress.h"
#include "formats/atp/header.h"

namespace atompack::test {

enum Kind : uint8_t { kBuiltin = 0, kAtom = 1, kMolecule = 2 };

inline constexpr size_t kSlotBytes = atp::Header::kEncodedSize;
inline constexpr size_t kDataStart = 2 * kSlotBytes;
inline constexpr uint32_t kElementBytes[] = {8, 8, 0, 8, 12, 8, 4, 24, 4, 3, 72, 4, 36, 0, 4, 8, 4, 8};  // by type tag

inline ByteString section(Kind kind, std::string_view key, uint8_t tag, const ByteString& payload) {
  return ByteString()
      .put<uint8_t>(kind)
      .put(static_cast<uint8_t>(key.size()))
      .append(ByteString(key))
      .put(tag)
      .put(static_cast<uint32_t>(payload.size()))
      .append(payload);
}

template <typename T>
ByteString tensor(std::initializer_list<uint32_t> dims, std::initializer_list<T> values) {
  return ByteString().put(static_cast<uint8_t>(dims.size())).put_all(dims).put_all(values);
}

// Positions 0, 0.5, 1, ... of type Float; atomic numbers 1, 2, 3, ...
template <typename Float = float>
ByteString geometry(uint32_t n_atoms) {
  ByteString bytes;
  bytes.put(n_atoms);
  for (uint32_t i = 0; i < 3 * n_atoms; ++i) bytes.put(static_cast<Float>(0.5 * i));
  for (uint32_t i = 0; i < n_atoms; ++i) bytes.put(static_cast<uint8_t>(i + 1));
  return bytes;
}

template <typename Float = float>
ByteString record(uint32_t n_atoms, const std::vector<ByteString>& sections = {}) {
  ByteString bytes = geometry<Float>(n_atoms);
  bytes.put(static_cast<uint16_t>(sections.size()));
  for (const ByteString& section : sections) bytes.append(section);
  return bytes;
}

struct EntryFields {
  Kind kind;
  std::string_view key;
  uint8_t tag;
  uint32_t slot_bytes;
  bool per_atom = false;
};

inline ByteString schema_entry(const EntryFields& entry) {
  return ByteString()
      .put<uint8_t>(entry.kind)
      .put(entry.tag)
      .put<uint8_t>(entry.per_atom)
      .put(static_cast<uint16_t>(entry.key.size()))
      .put(entry.tag < std::size(kElementBytes) ? kElementBytes[entry.tag] : 0U)
      .put(entry.slot_bytes)
      .append(ByteString(entry.key));
}

inline ByteString schema(const std::vector<EntryFields>& entries, uint8_t positions_tag = 4) {
  ByteString bytes;
  bytes.put<uint32_t>(1).put(positions_tag).put(static_cast<uint32_t>(entries.size()));
  for (const EntryFields& entry : entries) bytes.append(schema_entry(entry));
  return bytes;
}

// Makes the checksum of a slot right again.
inline void seal(std::span<std::byte> slot) {
  const uint32_t sum = codec::adler32(slot.first(kSlotBytes - 4));
  std::memcpy(slot.data() + kSlotBytes - 4, &sum, sizeof(sum));
}

inline ByteString header_slot(const atp::Header& header) {
  ByteString slot("ATPK");
  slot.put<uint32_t>(2).put(header.generation).put(header.data_start).put(header.index_offset).put(header.index_length);
  slot.put(header.n_molecules).put(static_cast<uint8_t>(header.codec)).zeros(3).put(header.level);
  slot.put(header.record_format).put(header.schema_offset).put(header.schema_length);
  slot.zeros(kSlotBytes - slot.size());
  seal(slot.writable());
  return slot;
}

inline atp::Header fresh_header() {
  atp::Header header;
  header.data_start = kDataStart;
  header.record_format = 2;
  return header;
}

struct FileFields {
  std::vector<ByteString> records = {};
  ByteString schema = {};  // empty: none
  codec::Codec codec = codec::Codec::none;
  uint32_t record_format = 2;
};

// One commit as generation 1 in slot B; slot A as at creation. The pieces lie at the header's offsets.
struct AtpFile {
  atp::Header header;
  ByteString bytes;

  size_t entry_at(size_t molecule) const { return header.index_offset + 8 + 20 * molecule; }
};

inline AtpFile atp_file(const FileFields& fields) {
  AtpFile file;
  file.header = fresh_header();
  file.header.codec = fields.codec;
  file.header.record_format = fields.record_format;
  ByteString index;
  ByteString body;
  index.put(static_cast<uint64_t>(fields.records.size()));
  for (const ByteString& record : fields.records) {
    const ByteString unit = unit_of(fields.codec, record.bytes());
    index.put(static_cast<uint64_t>(kDataStart + body.size())).put(static_cast<uint32_t>(unit.size()));
    index.put(static_cast<uint32_t>(record.size())).put(load_le<uint32_t>(record.bytes().data()));
    body.append(unit);
  }
  const ByteString first = header_slot(file.header);
  file.header.generation = 1;
  file.header.n_molecules = fields.records.size();
  file.header.schema_length = fields.schema.size();
  file.header.schema_offset = fields.schema.size() == 0 ? 0 : kDataStart + body.size();
  file.header.index_length = index.size();
  file.header.index_offset = kDataStart + body.size() + fields.schema.size();
  file.bytes.append(first).append(header_slot(file.header)).append(body).append(fields.schema).append(index);
  return file;
}

}  // namespace atompack::test
