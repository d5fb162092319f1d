#include "formats/lmdb/row_list.h"

#include <algorithm>
#include <optional>

#include "base/ascii.h"
#include "base/error.h"
#include "codec/inflate.h"
#include "formats/parsed/record.h"

namespace atompack::lmdb {
namespace {

// A field may have more dimensions than its value.
constexpr uint64_t kExtraRank = 2;
constexpr uint64_t kRowsAhead = 64 << 10;  // rows are mostly in the order of their ids

struct FoundRow {
  int64_t id;
  ValueRange range;
};

std::optional<int64_t> id_of(std::string_view key) {
  const bool is_canonical = !key.empty() && key[0] >= '1' && key[0] <= '9';
  return is_canonical ? parse_number<int64_t>(key) : std::nullopt;
}

// Sorted, each once, of those below `end`.
std::vector<int64_t> sorted_ids(std::vector<int64_t> ids, int64_t end) {
  std::erase_if(ids, [&](int64_t id) { return id < 1 || id >= end; });
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace

Bytes decode_value(Bytes stored, std::vector<std::byte>& memory) {
  constexpr auto kZlib = std::byte{0x78};
  return !stored.empty() && stored[0] == kZlib ? codec::inflate_whole(stored, memory) : stored;
}

uint64_t record_bytes_of(const Row& row) {
  constexpr uint64_t kMinValues = 9;  // a stress of six becomes nine
  const uint64_t n_atoms = row.numbers.size();
  uint64_t bytes = parsed::structure_bytes(n_atoms) + parsed::field_bytes(72, 2) + parsed::field_bytes(3, 1);
  for (const RowValue& value : row.values()) {
    const Array& array = value.array;
    const bool is_text = array.kind == Kind::text;
    const uint64_t n = is_text ? array.texts[0].size() : 8 * std::max<uint64_t>(array.size(), kMinValues);
    bytes += parsed::field_bytes(n, array.shape.size() + kExtraRank);
  }
  return bytes;
}

void add_row(const Row& row, parsed::Survey& survey) {
  for (const RowValue& value : row.values()) {
    survey.add(value.level, value.key, value.array.kind, value.array.shape, value.array.is_narrow);
  }
  for (const std::string& key : row.left_out) survey.leave_out(key);
  if (std::ranges::any_of(row.cell, [](double x) { return x != 0; })) survey.set_has_cells();
}

RowList::RowList(const std::string& path)
    : path_(path), file_(io::open_file(path)), pages_(file_, io::Access::read, false) {
  ValueRange next_id, deleted;
  std::vector<FoundRow> rows;
  bool is_empty = true;
  pages_.for_each([&](std::string_view key, const ValueRange& range) {
    is_empty = false;
    if (key == "nextid") next_id = range;
    if (key == "deleted_ids") deleted = range;
    if (const auto id = id_of(key)) rows.push_back({*id, range});
  });
  if (next_id.bytes == 0 && !is_empty) {
    UnsupportedFormatError error("expected an ASE database, got an LMDB file without the key nextid");
    throw error.in_file(path_);
  }
  RowMemory memory;
  const int64_t end = next_id.bytes == 0 ? 1 : parse_id(value(next_id, memory));
  const std::vector<int64_t> gone =
      deleted.bytes == 0 ? std::vector<int64_t>() : sorted_ids(parse_ids(value(deleted, memory)), end);
  std::erase_if(rows, [&](const FoundRow& row) { return row.id >= end || std::ranges::binary_search(gone, row.id); });
  std::ranges::sort(rows, {}, &FoundRow::id);
  const int64_t n_wanted = std::max<int64_t>(end - 1, 0) - std::ssize(gone);
  if (n_wanted != std::ssize(rows)) {
    throw CorruptFileError(cat("nextid: expected rows for ", n_wanted, " ids, got ", rows.size())).in_file(path_);
  }
  const auto twice = std::ranges::adjacent_find(rows, {}, &FoundRow::id);
  if (twice != rows.end()) {
    throw CorruptFileError(cat("keys: expected each id once, got ", twice->id, " twice")).in_file(path_);
  }
  ranges_.reserve(rows.size());
  for (const FoundRow& row : rows) ranges_.push_back(row.range);
}

Bytes RowList::value(const ValueRange& range, RowMemory& memory) const {
  return in_file(path_, [&] {
    const Bytes stored = pages_.bytes().bytes(range.offset, range.bytes, memory.buffer, kRowsAhead);
    return decode_value(stored, memory.json);
  });
}

void RowList::read(int64_t row, Row& into, RowMemory& memory) const {
  with_context([&](DataError& error) { error.shift_offset(0, " of the JSON").in_file(path_).at_molecule(row); },
               [&] { into.parse(value(range(row), memory)); });
}

}  // namespace atompack::lmdb
