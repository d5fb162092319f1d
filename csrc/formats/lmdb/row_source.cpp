#include "formats/lmdb/row_source.h"

#include <algorithm>

#include "base/error.h"
#include "codec/inflate.h"
#include "formats/lmdb/row_block.h"
#include "threads/parallel_for_each.h"

namespace atompack::lmdb {

constexpr int64_t kGroupRows = 4096, kTaskRows = 128;

RowScanner::RowScanner(const std::string& path, unsigned n_threads) : rows_(path), n_threads_(n_threads) {
  const io::FileVersion& version = rows_.version();
  index_.stamp = {version.size, version.seconds, version.nanoseconds};
  index_.max_ratio = codec::kMaxInflateRatio;
  for (int64_t i = 0; i < rows_.size(); ++i) total_bytes_ += rows_.range(i).bytes;
}

bool RowScanner::advance() {
  const int64_t first = std::ssize(index_.entries), last = std::min(first + kGroupRows, rows_.size());
  if (first == last) return false;
  std::vector<ParsedRows> parts(static_cast<size_t>((last - first + kTaskRows - 1) / kTaskRows));
  threads::parallel_for_each(parts.size(), n_threads_, [&](size_t i) {
    const int64_t begin = first + static_cast<int64_t>(i) * kTaskRows;
    parse_rows(begin, std::min(begin + kTaskRows, last), parts[i]);
  });
  for (const ParsedRows& part : parts) {
    index_.entries.insert(index_.entries.end(), part.entries.begin(), part.entries.end());
    in_file(rows_.path(), [&] { index_.survey.add(part.survey); });
    for (const parsed::IndexEntry& entry : part.entries) bytes_read_ += entry.bytes;
  }
  return true;
}

void RowScanner::parse_rows(int64_t first, int64_t last, ParsedRows& out) const {
  RowMemory memory;
  Row row;
  for (int64_t i = first; i < last; ++i) {
    rows_.read(i, row, memory);
    add_row(row, out.survey);
    out.entries.push_back({rows_.range(i).offset, rows_.range(i).bytes, row.numbers.size(), record_bytes_of(row)});
  }
}

constexpr int64_t kWorkOfStoredByte = 64;  // a byte is decompressed, too

RowSource::RowSource(const io::Location& location, const io::FileVersion& version,
                     std::shared_ptr<const parsed::Index> index, std::shared_ptr<const parsed::FieldMap> fields,
                     io::Access access, bool populate)
    : IndexedSource(location.path(), std::move(index), std::move(fields), kWorkOfStoredByte),
      pages_(std::make_unique<PageFile>(parsed::open_unchanged(location, version, location.path()), access, populate)) {
}

void RowSource::prepare(std::span<const int64_t> indices) const {
  pages_->check_unchanged();
  IndexedSource::prepare(indices);
}

Bytes RowSource::parse(int64_t index, std::span<std::byte> scratch) const {
  thread_local RowMemory memory;
  thread_local Row row;
  const parsed::IndexEntry& found = entry(index);
  return shift_offset(0, " of the JSON", [&] {
    row.parse(decode_value(bytes().bytes(found.place, found.bytes, memory.buffer), memory.json));
    if (row.numbers.size() != found.n_atoms) throw CorruptFileError("expected the row of the index, got another");
    return build_record(row, fields(), scratch);
  });
}

}  // namespace atompack::lmdb
