#include "formats/lmdb/row_source.h"

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "formats/lmdb/row_block.h"
#include "formats/parsed/record.h"

namespace atompack::lmdb {
namespace {

constexpr size_t kMaxSampledRows = 8;      // by which a file is found to be in memory
constexpr int64_t kWorkOfStoredByte = 64;  // bytes that could be copied while one byte is decompressed and parsed

std::vector<io::ByteRange> ranges_of(const parsed::Index& index, std::span<const int64_t> rows) {
  std::vector<io::ByteRange> ranges;
  for (const int64_t row : rows) {
    const parsed::IndexEntry& entry = index.entries[static_cast<size_t>(row)];
    ranges.push_back({entry.place, entry.bytes});
  }
  return ranges;
}

}  // namespace

RowSource::RowSource(const io::Location& location, const io::FileVersion& version,
                     std::shared_ptr<const parsed::Index> index, std::shared_ptr<const parsed::FieldMap> fields,
                     io::Access access, bool populate)
    : path_(location.path()), index_(std::move(index)), fields_(std::move(fields)) {
  auto file = io::open_file(location);
  if (file->version() != version) {
    throw IoError(ESTALE, "the file was changed since it was opened; refresh() reads it again", path_);
  }
  pages_ = std::make_unique<PageFile>(std::move(file), access, populate);
}

void RowSource::prepare(std::span<const int64_t> indices) const {
  pages_->check_unchanged();
  const io::ByteSource& bytes = pages_->bytes();
  if (bytes.is_sample_due()) {
    bytes.sample(ranges_of(*index_, indices.first(std::min(indices.size(), kMaxSampledRows))));
  }
}

void RowSource::announce(std::span<const int64_t> indices) const {
  const io::ByteSource& bytes = pages_->bytes();
  if (bytes.window() == 0) return;
  bytes.check_not_shrunk();
  const std::vector<io::ByteRange> ranges = ranges_of(*index_, indices);
  bytes.sample(std::span(ranges).first(std::min(ranges.size(), kMaxSampledRows)));
  if (bytes.window() > 0) bytes.announce(ranges);
}

MoleculeExtent RowSource::extent(int64_t index) const {
  const parsed::IndexEntry& found = entry(index);
  return {.n_atoms = static_cast<int64_t>(found.n_atoms),
          .decoded_bytes = static_cast<int64_t>(found.record_bytes),
          .work = kWorkOfStoredByte * static_cast<int64_t>(found.bytes)};
}

Bytes RowSource::decode(int64_t index, std::span<std::byte> scratch) const {
  try {
    return parse(index, scratch);
  } catch (DataError& error) {
    error.shift_offset(0, " of the JSON");
    locate(error, index);
    throw;
  }
}

Bytes RowSource::parse(int64_t index, std::span<std::byte> scratch) const {
  thread_local RowMemory memory;
  thread_local Row row;
  const parsed::IndexEntry& found = entry(index);
  row.parse(decode_value(pages_->bytes().bytes(found.place, found.bytes, memory.buffer), memory.json));
  if (row.numbers.size() != found.n_atoms) throw CorruptFileError("expected the row of the index, got another");
  return build_record(row, *fields_, scratch);
}

void RowSource::visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const {
  try {
    parsed::visit_record(record, fields_->schema(), visitor);
  } catch (DataError& error) {
    locate(error, index);
    throw;
  }
}

}  // namespace atompack::lmdb
