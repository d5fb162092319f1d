// The bytes of an HDF5 file, by address: FORMAT.md#superblock.
#pragma once

#include "formats/torch_cache/hdf5/metadata_cursor.h"

namespace atompack::torch_cache {

class Hdf5File {
 public:
  static constexpr uint64_t kNowhere = UINT64_MAX;  // the address of what does not exist

  // Throws CorruptFileError if it is not a complete HDF5 file, UnsupportedFormatError for sizes other than 8 bytes.
  explicit Hdf5File(Bytes bytes);

  Bytes bytes() const { return bytes_; }
  // Offset of the HDF5 data in the file; addresses count from there.
  uint64_t base() const { return base_; }
  // Address of the header of the root group.
  uint64_t root() const { return root_; }

  // `what` names the structure in errors and must outlive the cursor. Throws CorruptFileError unless the file holds
  // these bytes.
  MetadataCursor at(uint64_t address, uint64_t length, std::string_view what) const;
  // Up to the end of the file.
  MetadataCursor from(uint64_t address, std::string_view what) const;
  // Of a structure whose last four bytes are the checksum of those before; these are omitted.
  MetadataCursor checked(uint64_t address, uint64_t length, std::string_view what) const;

 private:
  void read_superblock();
  void check_end(uint64_t stored_base, uint64_t end) const;

  Bytes bytes_;
  uint64_t base_ = 0;
  uint64_t root_ = 0;
};

}  // namespace atompack::torch_cache
