// The bytes of an HDF5 file, by address: FORMAT.md#superblock.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace atompack::torch_cache {

// The checksum of HDF5's metadata: FORMAT.md#checksums.

// Bob Jenkins' lookup3 with the start value 0.
uint32_t lookup3(Bytes bytes);

// Reading of one metadata structure of an HDF5 file from untrusted bytes.
inline constexpr uint64_t kAddressBytes = 8;
inline constexpr uint64_t kChecksumBytes = 4;

// Bytes that numbers up to this one take.
inline size_t bytes_for(uint64_t most) {
  return std::max<size_t>(1, (static_cast<size_t>(std::bit_width(most)) + 7) / 8);
}

// Throws CorruptFileError with the structure's name and the offset in the file where its bytes end early.
class MetadataCursor {
 public:
  // `at` is the offset of `bytes` in the file; `what` names the structure and must outlive the cursor.
  MetadataCursor(Bytes bytes, uint64_t at, std::string_view what) : bytes_(bytes), at_(at), what_(what) {}

  // In the file.
  uint64_t offset() const { return at_ + position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }
  Bytes rest() const { return bytes_.subspan(position_); }

  Bytes take(uint64_t n) {
    if (n > remaining()) fail(cat(n, " bytes"), remaining());
    const Bytes taken = bytes_.subspan(position_, n);
    position_ += n;
    return taken;
  }

  template <typename T>
  T read() {
    return load_le<T>(take(sizeof(T)).data());
  }

  // Of 1 to 8 bytes, without a sign.
  uint64_t number(size_t width) {
    uint64_t value = 0;
    std::memcpy(&value, take(width).data(), width);
    return value;
  }

  void signature(std::string_view expected) {
    const uint64_t at = offset();
    if (as_text(take(expected.size())) != expected) {
      throw CorruptFileError(cat(what_, ": expected the signature ", expected, ", got another"), at);
    }
  }

  void version(int expected) {
    if (const int got = read<uint8_t>(); got != expected) {
      throw UnsupportedFormatError(cat(what_, ": expected version ", expected, ", got ", got), offset() - 1);
    }
  }

  template <typename Expected, typename Got>
  [[noreturn]] void fail(const Expected& expected, const Got& got) const {
    throw CorruptFileError(cat(what_, ": expected ", expected, ", got ", got), offset());
  }

 private:
  Bytes bytes_;
  uint64_t at_;
  std::string_view what_;
  uint64_t position_ = 0;
};

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
  // For a structure whose last four bytes are the checksum of those before; these are omitted.
  MetadataCursor checked(uint64_t address, uint64_t length, std::string_view what) const;

 private:
  void read_superblock();
  void check_end(uint64_t stored_base, uint64_t end) const;

  Bytes bytes_;
  uint64_t base_ = 0;
  uint64_t root_ = 0;
};

}  // namespace atompack::torch_cache
