#include "formats/lmdb/row_source.h"

#include "base/error.h"
#include "formats/lmdb/row_block.h"

namespace atompack::lmdb {

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
