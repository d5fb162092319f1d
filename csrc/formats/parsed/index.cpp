#include "formats/parsed/index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/utf8.h"
#include "codec/checksums.h"

namespace atompack::parsed {
namespace {

constexpr std::array<char, 8> kIndexMagic = {'A', 'P', 'T', 'I', 'N', 'D', 'E', 'X'};
constexpr uint32_t kIndexVersion = 2, kMaxIndexRatio = 4096;
constexpr size_t kEntryBytes = 32;
static_assert(sizeof(IndexEntry) == kEntryBytes);

void append_field(const SurveyedField& field, std::vector<std::byte>& out) {
  const size_t rank = field.shape ? field.shape->size() : 0;
  append_le(out, static_cast<uint8_t>(field.level), static_cast<uint8_t>(field.kind),
            static_cast<uint8_t>(field.shape.has_value()), static_cast<uint8_t>(rank),
            static_cast<uint8_t>(field.is_narrow), static_cast<uint32_t>(field.key.size()));
  if (field.shape) append(out, std::as_bytes(std::span(*field.shape)));
  append(out, as_bytes(field.key));
}

std::string_view take_key(ByteCursor& in, uint32_t n_bytes) {
  const Bytes key = in.take(n_bytes, "key of a field");
  if (!is_utf8_or_surrogates(key)) throw CorruptFileError("index: expected keys in UTF-8, got other bytes");
  return as_text(key);
}

uint8_t take_code(ByteCursor& in, uint8_t last, std::string_view what) {
  const auto code = in.read_le<uint8_t>(what);
  if (code > last) throw_corrupt(what, ": expected up to ", int{last}, ", got ", int{code});
  return code;
}

void take_field(ByteCursor& in, Survey& survey) {
  const auto level = static_cast<Level>(take_code(in, static_cast<uint8_t>(Level::atom), "level of a field"));
  const auto kind = static_cast<Kind>(take_code(in, static_cast<uint8_t>(Kind::text), "kind of a field"));
  const bool has_shape = take_code(in, 1, "shape of a field") == 1;
  const uint8_t rank = take_code(in, Shape::kMaxRank, "rank of a field");
  const bool is_narrow = take_code(in, 1, "width of a field") == 1;
  const auto key_bytes = in.read_le<uint32_t>("length of a key");
  std::vector<int64_t> shape(rank);
  for (int64_t& dim : shape) dim = in.read_le<int64_t>("shape of a field");
  const std::string key(take_key(in, key_bytes));
  survey.add(level, key, kind, shape, is_narrow);
  if (has_shape) return;
  shape.push_back(-1);  // not the shape of the first: it varies
  survey.add(level, key, kind, shape, is_narrow);
}

void check_entries(const Index& index) {
  const uint64_t file_bytes = index.stamp.bytes;
  for (size_t i = 0; i < index.entries.size(); ++i) {
    const IndexEntry& entry = index.entries[i];
    const bool is_inside = entry.place <= file_bytes && entry.bytes <= file_bytes - entry.place;
    const uint64_t max_bytes = max_record_bytes(entry.bytes, index.max_ratio);
    if (!is_inside || entry.n_atoms > max_bytes || entry.record_bytes > max_bytes) {
      throw CorruptFileError("index: expected entries that the file has room for").at_molecule(static_cast<int64_t>(i));
    }
  }
}

}  // namespace

std::vector<std::byte> encode_index(const Index& index) {
  const Survey& survey = index.survey;
  std::vector<std::byte> body;
  append_le(body, index.stamp.bytes, index.stamp.seconds, index.stamp.nanoseconds,
            static_cast<uint64_t>(index.entries.size()), index.max_ratio, static_cast<uint8_t>(index.ends_open),
            static_cast<uint8_t>(survey.has_cells()), static_cast<uint32_t>(survey.fields().size()));
  for (const SurveyedField& field : survey.fields()) append_field(field, body);
  append_le(body, static_cast<uint32_t>(survey.left_out().size()));
  for (const auto& [key, count] : survey.left_out()) {
    append_le(body, count, static_cast<uint32_t>(key.size()));
    append(body, as_bytes(key));
  }
  append(body, std::as_bytes(std::span(index.entries)));
  std::vector<std::byte> file;
  append(file, std::as_bytes(std::span(kIndexMagic)));
  append_le(file, kIndexVersion, codec::crc32c(body));
  append(file, body);
  return file;
}

FileStamp stamp_of_index(Bytes head) {
  ByteCursor in(head);
  const Bytes magic = in.take(kIndexMagic.size(), "magic of an index");
  if (std::memcmp(magic.data(), kIndexMagic.data(), magic.size()) != 0) throw CorruptFileError("index: expected one");
  if (const auto version = in.read_le<uint32_t>("version of an index"); version != kIndexVersion) {
    throw UnsupportedFormatError(cat("version of an index: expected ", kIndexVersion, ", got ", version));
  }
  in.read_le<uint32_t>("checksum of an index");
  FileStamp stamp;
  stamp.bytes = in.read_le<uint64_t>("size of the file");
  stamp.seconds = in.read_le<int64_t>("time of the file");
  stamp.nanoseconds = in.read_le<int64_t>("time of the file");
  return stamp;
}

Index decode_index(Bytes bytes) {
  Index index;
  index.stamp = stamp_of_index(bytes);
  ByteCursor in(bytes);
  in.take(kIndexMagic.size() + sizeof(kIndexVersion), "head of an index");
  const auto checksum = in.read_le<uint32_t>("checksum of an index");
  if (codec::crc32c(bytes.subspan(in.position())) != checksum) {
    throw CorruptFileError("index: its checksum does not match");
  }
  in.take(sizeof(FileStamp), "stamp of an index");
  const auto n = in.read_le<uint64_t>("number of molecules");
  index.max_ratio = in.read_le<uint32_t>("ratio of compression");
  if (index.max_ratio > kMaxIndexRatio) throw CorruptFileError("index: expected a smaller ratio of compression");
  index.ends_open = take_code(in, 1, "end of the last line") == 1;
  if (take_code(in, 1, "cells") == 1) index.survey.set_has_cells();
  const auto n_fields = in.read_le<uint32_t>("number of fields");
  for (uint32_t i = 0; i < n_fields; ++i) take_field(in, index.survey);
  const auto n_left_out = in.read_le<uint32_t>("number of values left out");
  for (uint32_t i = 0; i < n_left_out; ++i) {
    const auto count = in.read_le<uint64_t>("number of values left out");
    const auto key_bytes = in.read_le<uint32_t>("length of a key");
    index.survey.leave_out(take_key(in, key_bytes), count);
  }
  if (in.remaining() % kEntryBytes != 0 || in.remaining() / kEntryBytes != n) {
    throw_corrupt("index: expected ", n, " entries, got ", in.remaining(), " bytes");
  }
  const Bytes entries = in.take(in.remaining(), "entries");
  index.entries.resize(static_cast<size_t>(n));
  if (!entries.empty()) std::memcpy(index.entries.data(), entries.data(), entries.size());
  check_entries(index);
  return index;
}

bool is_index_of(Bytes head, const FileStamp& file) {
  try {
    return stamp_of_index(head) == file;
  } catch (const DataError&) {
    return false;
  }
}

void Index::copy_atom_counts(std::span<int64_t> out) const {
  if (out.size() != entries.size()) throw InternalError("atom counts of another number of molecules");
  std::ranges::transform(entries, out.begin(), &IndexEntry::n_atoms);
}

}  // namespace atompack::parsed
