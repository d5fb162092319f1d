// Rows of an ASE database in LMDB as molecules, decompressed and parsed when they are read.
#pragma once

#include <memory>

#include "formats/lmdb/page_file.h"
#include "formats/parsed/source.h"

namespace atompack::lmdb {

class RowSource final : public parsed::IndexedSource {
 public:
  // Throws IoError (ESTALE) if the file has not the size and the time of `version`.
  RowSource(const io::Location& location, const io::FileVersion& version, std::shared_ptr<const parsed::Index> index,
            std::shared_ptr<const parsed::FieldMap> fields, io::Access access, bool populate);

  void prepare(std::span<const int64_t> indices) const override;
  void prefetch(int64_t index) const override { bytes().prefetch(entry(index).place, entry(index).bytes); }

 private:
  const io::ByteSource& bytes() const override { return pages_->bytes(); }
  Bytes parse(int64_t index, std::span<std::byte> scratch) const override;

  std::unique_ptr<const PageFile> pages_;
};

}  // namespace atompack::lmdb
