#include "formats/lmdb/row_index.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "codec/inflate.h"
#include "codec/inflate_whole.h"
#include "formats/lmdb/page_file.h"
#include "formats/lmdb/row_json.h"
#include "formats/parsed/record.h"
#include "threads/parallel_for_each.h"

namespace atompack::lmdb {
namespace scanning {  // not anonymous: the scanner, which has external linkage, has members of these types

constexpr size_t kGroupRows = 4096, kTaskRows = 128;
// A field may have more dimensions than its value.
constexpr uint64_t kExtraRank = 2;

struct FoundRow {
  int64_t id;
  ValueRange range;
};

struct ParsedRows {
  std::vector<parsed::IndexEntry> entries;
  parsed::Survey survey;
};

inline std::optional<int64_t> id_of(std::string_view key) {
  int64_t id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  const bool is_canonical = !key.empty() && key[0] >= '1' && key[0] <= '9';
  if (error != std::errc() || end != key.data() + key.size() || !is_canonical) return std::nullopt;
  return id;
}

inline uint64_t bytes_of(const Row& row) {
  const uint64_t n_atoms = row.numbers.size();
  uint64_t bytes = parsed::structure_bytes(n_atoms) + parsed::field_bytes(72, 2) + parsed::field_bytes(3, 1);
  for (const RowValue& value : row.values()) {
    const Array& array = value.array;
    const uint64_t values = array.kind == Kind::text ? array.texts[0].size() : 8 * std::max<uint64_t>(array.size(), 9);
    bytes += parsed::field_bytes(values, array.shape.size() + kExtraRank);
  }
  return bytes;
}

inline void add_row(const Row& row, const ValueRange& range, ParsedRows& out) {
  for (const RowValue& value : row.values()) {
    out.survey.add(value.level, value.key, value.array.kind, value.array.shape, value.array.is_narrow);
  }
  for (const std::string& key : row.left_out) out.survey.leave_out(key);
  if (std::ranges::any_of(row.cell, [](double x) { return x != 0; })) out.survey.set_has_cells();
  out.entries.push_back({range.offset, range.bytes, row.numbers.size(), bytes_of(row)});
}

}  // namespace scanning

Bytes decode_value(Bytes stored, std::vector<std::byte>& memory) {
  constexpr auto kZlib = std::byte{0x78};
  return !stored.empty() && stored[0] == kZlib ? codec::inflate_whole(stored, memory) : stored;
}

class RowScanner::Impl {
 public:
  Impl(const std::string& path, unsigned n_threads)
      : path_(path), file_(io::open_file(path)), pages_(file_, io::Access::read, false), n_threads_(n_threads) {
    const io::FileVersion& version = file_->version();
    index_.stamp = {version.size, version.seconds, version.nanoseconds};
    index_.max_ratio = codec::kMaxInflateRatio;
    find_rows();
    for (const scanning::FoundRow& row : rows_) total_bytes_ += row.range.bytes;
  }

  bool advance() {
    const size_t first = index_.entries.size(), n = std::min(scanning::kGroupRows, rows_.size() - first);
    if (n == 0) return false;
    const size_t n_tasks = (n + scanning::kTaskRows - 1) / scanning::kTaskRows;
    std::vector<scanning::ParsedRows> parts(n_tasks);
    parallel_for_each(n_tasks, n_threads_, [&](size_t i) {
      const size_t begin = first + i * scanning::kTaskRows;
      parse_rows(begin, std::min(begin + scanning::kTaskRows, first + n), parts[i]);
    });
    for (const scanning::ParsedRows& part : parts) {
      index_.entries.insert(index_.entries.end(), part.entries.begin(), part.entries.end());
      index_.survey.add(part.survey);
      for (const parsed::IndexEntry& entry : part.entries) bytes_read_ += entry.bytes;
    }
    return true;
  }

  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t total_bytes() const { return total_bytes_; }
  parsed::Index take() { return std::move(index_); }

 private:
  void find_rows() {
    ValueRange next_id, deleted;
    uint64_t n_keys = 0;
    pages_.for_each([&](std::string_view key, const ValueRange& range) {
      ++n_keys;
      if (key == "nextid") next_id = range;
      if (key == "deleted_ids") deleted = range;
      if (const auto id = scanning::id_of(key)) rows_.push_back({*id, range});
    });
    if (next_id.bytes == 0 && n_keys > 0) {
      UnsupportedFormatError error("expected an ASE database, got an LMDB file without the key nextid");
      throw error.in_file(path_);
    }
    const int64_t end = next_id.bytes == 0 ? 1 : parse_id(value(next_id));
    std::vector<int64_t> deleted_ids = deleted.bytes == 0 ? std::vector<int64_t>() : parse_ids(value(deleted));
    std::ranges::sort(deleted_ids);
    deleted_ids.erase(std::unique(deleted_ids.begin(), deleted_ids.end()), deleted_ids.end());
    std::erase_if(deleted_ids, [&](int64_t id) { return id < 1 || id >= end; });
    std::erase_if(rows_, [&](const scanning::FoundRow& row) {
      return row.id >= end || std::ranges::binary_search(deleted_ids, row.id);
    });
    std::ranges::sort(rows_, {}, &scanning::FoundRow::id);
    const int64_t n_wanted = std::max<int64_t>(end - 1, 0) - std::ssize(deleted_ids);
    if (n_wanted != std::ssize(rows_)) {
      throw CorruptFileError(cat("nextid: expected rows for ", n_wanted, " ids, got ", rows_.size())).in_file(path_);
    }
  }

  Bytes value(const ValueRange& range) {
    return decode_value(pages_.bytes().bytes(range.offset, range.bytes, buffer_), memory_);
  }

  void parse_rows(size_t first, size_t last, scanning::ParsedRows& out) const {
    io::RangeBuffer buffer;
    std::vector<std::byte> memory;
    Row row;
    for (size_t i = first; i < last; ++i) {
      const ValueRange& range = rows_[i].range;
      try {
        row.parse(decode_value(pages_.bytes().bytes(range.offset, range.bytes, buffer), memory));
      } catch (DataError& error) {
        error.shift_offset(0, " of the JSON").in_file(path_).at_molecule(static_cast<int64_t>(i));
        throw;
      }
      scanning::add_row(row, range, out);
    }
  }

  std::string path_;
  std::shared_ptr<const io::OpenFile> file_;
  PageFile pages_;
  unsigned n_threads_;
  std::vector<scanning::FoundRow> rows_;
  parsed::Index index_;
  uint64_t bytes_read_ = 0, total_bytes_ = 0;
  io::RangeBuffer buffer_;
  std::vector<std::byte> memory_;
};

RowScanner::RowScanner(const std::string& path, unsigned n_threads) : impl_(std::make_unique<Impl>(path, n_threads)) {}

RowScanner::~RowScanner() = default;

bool RowScanner::advance() { return impl_->advance(); }
uint64_t RowScanner::bytes_read() const { return impl_->bytes_read(); }
uint64_t RowScanner::file_bytes() const { return impl_->total_bytes(); }
parsed::Index RowScanner::take() { return impl_->take(); }

}  // namespace atompack::lmdb
