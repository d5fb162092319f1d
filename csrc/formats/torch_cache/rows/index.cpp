#include "formats/torch_cache/rows/index.h"

#include <algorithm>

#include "base/error.h"

namespace atompack::torch_cache {
namespace {

// Compares as unsigned, so that one comparison finds negative numbers too. No early exit, so that the loop vectorizes.
template <typename T>
uint64_t largest(Bytes row) {
  std::make_unsigned_t<T> largest = 0;
  for (size_t at = 0; at < row.size(); at += sizeof(T)) {
    largest = std::max(largest, load_le<std::make_unsigned_t<T>>(row.data() + at));
  }
  return largest;
}

template <typename T>
[[noreturn]] void fail_index(Bytes row, int64_t n_atoms) {
  for (size_t at = 0; at < row.size(); at += sizeof(T)) {
    const T found = load_le<T>(row.data() + at);
    if (found < 0 || found >= n_atoms) {
      throw CorruptFileError(cat("index: expected atoms from 0 to ", n_atoms - 1, ", got ", found));
    }
  }
  throw CorruptFileError("index: the file changed while it was read");
}

template <typename T>
void check(Bytes row, int64_t n_atoms) {
  if (!row.empty() && largest<T>(row) >= static_cast<uint64_t>(n_atoms)) fail_index<T>(row, n_atoms);
}

}  // namespace

std::vector<int64_t> rows_by_entry(const std::string& section, std::span<const int64_t> cache_row,
                                   std::span<const int64_t> entry_idx, int64_t n_entries) {
  std::vector<int64_t> rows(static_cast<size_t>(n_entries), -1);
  for (size_t row = 0; row < cache_row.size(); ++row) {
    if (cache_row[row] != static_cast<int64_t>(row)) {
      throw CorruptFileError(cat(section, "/index: cache_row: expected ", row, ", got ", cache_row[row]));
    }
    if (entry_idx[row] < 0 || entry_idx[row] >= n_entries) {
      throw CorruptFileError(
          cat(section, "/index: entry_idx: expected less than ", n_entries, ", got ", entry_idx[row]));
    }
    rows[static_cast<size_t>(entry_idx[row])] = static_cast<int64_t>(row);
  }
  return rows;
}

void check_length(const VlenColumn& column, int64_t row, int64_t n_rows, int64_t row_length) {
  const auto found = column.length(row);
  if (n_rows < 0 || n_rows > INT32_MAX || row_length < 0 || row_length > INT32_MAX ||
      found != static_cast<uint64_t>(n_rows) * static_cast<uint64_t>(row_length)) {
    throw CorruptFileError(cat("row: expected ", n_rows, " x ", row_length, " values as in the index, got ", found))
        .at_field(column.name());
  }
}

void check_indices(const VlenColumn& column, Bytes row, int64_t n_atoms) {
  try {
    column.dtype() == DType::int64 ? check<int64_t>(row, n_atoms) : check<int32_t>(row, n_atoms);
  } catch (DataError& error) {
    error.at_field(column.name());
    throw;
  }
}

}  // namespace atompack::torch_cache
