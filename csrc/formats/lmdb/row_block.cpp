#include "formats/lmdb/row_block.h"

#include <algorithm>

#include "base/error.h"
#include "threads/parallel_for_each.h"

namespace atompack::lmdb {

constexpr int64_t kBlockTaskRows = 128;
constexpr int64_t kWorkOfRecordByte = 2;  // bytes that could be copied while one byte of a record is built

RowBlock::RowBlock(const RowList& list, std::string path, int64_t first, int64_t last, unsigned n_threads,
                   std::shared_ptr<RowPool> pool)
    : path_(std::move(path)), first_(first), pool_(std::move(pool)), rows_(pool_->take()) {
  rows_.resize(static_cast<size_t>(last - first));
  std::vector<parsed::Survey> surveys(static_cast<size_t>((last - first + kBlockTaskRows - 1) / kBlockTaskRows));
  threads::parallel_for_each(surveys.size(), n_threads, [&](size_t task) {
    RowMemory memory;
    const int64_t begin = static_cast<int64_t>(task) * kBlockTaskRows;
    for (int64_t i = begin; i < std::min(begin + kBlockTaskRows, last - first); ++i) {
      Row& row = rows_[static_cast<size_t>(i)];
      list.read(first + i, row, memory);
      add_row(row, surveys[task]);
    }
  });
  for (const parsed::Survey& survey : surveys) survey_.add(survey);
}

uint64_t RowBlock::count_arrays(std::string_view key) const {
  uint64_t n = 0;
  for (const Row& row : rows_) {
    for (const RowValue& value : row.values()) n += value.key == key && !value.array.is_scalar() ? 1 : 0;
  }
  return n;
}

namespace {

// Numbers among strings, as text.
void convert_to_text(const parsed::FieldMap::Rule& rule, Array& value) {
  const bool is_number = value.kind != Kind::text && value.kind != Kind::null;
  if (rule.kind == Kind::text && is_number && value.is_scalar()) value.to_text();
}

}  // namespace

Bytes build_record(Row& row, const parsed::FieldMap& fields, std::span<std::byte> scratch) {
  parsed::MoleculeBuilder molecule(fields, scratch, row.positions, row.numbers);
  molecule.set_cell(row.cell);
  molecule.set_pbc(row.pbc);
  for (const Level level : {Level::atom, Level::molecule}) {
    size_t guess = 0;
    for (RowValue& value : row.values()) {
      if (value.level != level) continue;
      const parsed::FieldMap::Rule* const rule = fields.find(level, value.key, guess);
      if (rule == nullptr) throw CorruptFileError("expected a key of the index, got another").at_field(value.key);
      convert_to_text(*rule, value.array);
      molecule.add(*rule, value.key, value.array);
    }
  }
  return molecule.finish();
}

std::unique_ptr<RowBlock> RowReader::read(int64_t first, int64_t last, uint64_t max_bytes) const {
  if (first < 0 || last <= first || last > size()) throw InternalError("rows out of range");
  int64_t end = first + 1;
  uint64_t bytes = rows_.range(first).bytes;
  while (end < last && bytes < max_bytes) bytes += rows_.range(end++).bytes;
  return std::make_unique<RowBlock>(rows_, rows_.path(), first, end, n_threads_, pool_);
}

MoleculeExtent RowBlockSource::extent(int64_t index) const {
  const Row& row = block_->rows()[static_cast<size_t>(index)];
  const auto bytes = static_cast<int64_t>(record_bytes_of(row));
  return {.n_atoms = std::ssize(row.numbers), .decoded_bytes = bytes, .work = kWorkOfRecordByte * bytes};
}

Bytes RowBlockSource::parse(int64_t index, std::span<std::byte> scratch) const {
  thread_local Row row;
  row = block_->rows()[static_cast<size_t>(index)];
  return build_record(row, fields(), scratch);
}

}  // namespace atompack::lmdb
