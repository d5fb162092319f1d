#include "formats/lmdb/row_index.h"

#include <algorithm>

#include "base/error.h"
#include "codec/inflate.h"
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

}  // namespace atompack::lmdb
