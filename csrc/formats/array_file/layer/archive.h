// Archive that describes a file's contents (FORMAT.md, "Archive"): records with pointers to preceding data. Positions
// count from its first byte. It is not copied; every load is a memcpy, so it may be unaligned.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace atompack::array_file {

// A run of equal elements inside a checked archive.
struct Run {
  uint64_t at = 0;
  uint64_t count = 0;
};

struct Layout {
  uint64_t bytes = 0;
  uint64_t alignment = 8;
};

// An archive whose bounds were checked by ArchiveCheck: all reads are in range.
class Archive {
 public:
  explicit Archive(Bytes bytes) : bytes_(bytes) {}

  uint64_t size() const { return bytes_.size(); }
  Bytes bytes() const { return bytes_; }

  template <typename T>
  T load(uint64_t at) const {
    return load_le<T>(bytes_.data() + at);
  }
  Run run(uint64_t slot) const;
  // Target of the relative pointer at `slot`.
  uint64_t target(uint64_t slot) const;
  std::string_view text(uint64_t slot) const;

 private:
  Bytes bytes_;
};

// Checks that an archive is a tree: children precede their parents, in the order of the fields, and share no bytes. An
// archive that passes has no pointers out of range and no cycles. Throws CorruptFileError.
class ArchiveCheck {
 public:
  // `root` is the position of the root record; the records that it refers to precede it.
  ArchiveCheck(Bytes archive, uint64_t root) : bytes_(archive), high_(root) {}

  // Checks the vector at `slot`; `each(at)` checks one of its elements.
  template <typename Each>
  void vector(uint64_t slot, Layout element, std::string_view what, const Each& each) {
    const Run run = claim_run(slot, element, what);
    const uint64_t outer = high_;
    high_ = run.at;
    for (uint64_t i = 0; i < run.count; ++i) each(run.at + i * element.bytes);
    leave(run.at + run.count * element.bytes, outer);
  }
  // Checks a vector of integers, all of whose values are valid.
  void integers(uint64_t slot, Layout element, std::string_view what) {
    const Run run = claim_run(slot, element, what);
    low_ = run.at + run.count * element.bytes;
  }
  void text(uint64_t slot, std::string_view what);
  void boolean(uint64_t at, std::string_view what) const;
  // Checks a tag, which must be below `end`.
  uint8_t tag(uint64_t at, uint8_t end, std::string_view what) const;
  // Follows the pointers at slot + `pointer` while `goes_on(slot)`, to records of 24 bytes. Iterative: a file can nest
  // them deeper than the stack allows.
  template <typename GoesOn>
  void chain(uint64_t slot, uint64_t pointer, std::string_view what, const GoesOn& goes_on) {
    const uint64_t outer = high_;
    uint64_t end = low_;
    for (bool first = true; goes_on(slot); first = false) {
      const uint64_t at = slot + pointer;
      slot = claim(at, load<int64_t>(at), kRecord, what);
      if (first) end = slot + kRecord.bytes;
      high_ = slot;
    }
    leave(end, outer);
  }

 private:
  Run claim_run(uint64_t slot, Layout element, std::string_view what) const;
  // Returns the position base + distance, if there is room for `bytes` there.
  uint64_t claim(uint64_t base, int64_t distance, Layout pointee, std::string_view what) const;
  static constexpr Layout kRecord{24, 8};

  void leave(uint64_t low, uint64_t high) {
    low_ = low;
    high_ = high;
  }

  template <typename T>
  T load(uint64_t at) const {
    return load_le<T>(bytes_.data() + at);
  }

  Bytes bytes_;
  uint64_t low_ = 0, high_ = 0;  // the range that pointers may still refer to
};

// Writer of an archive (FORMAT.md, "Archive"): the targets of a record's pointers precede the record, in the order of
// its fields.

// Positions count from the first byte.
class ArchiveWriter {
 public:
  uint64_t size() const { return bytes_.size(); }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

  // Appends zeros up to the alignment; returns the position after them.
  uint64_t pad(uint64_t alignment);
  void zeros(uint64_t n) { bytes_.resize(bytes_.size() + n); }
  template <typename T>
  void put(T value) {
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  // Returns the position of the bytes.
  uint64_t put_bytes(Bytes bytes);
  Run put_integers(std::span<const uint64_t> values);  // as u32
  // Appends the bytes of a string that is too long for its slot, otherwise nothing; returns their position.
  uint64_t put_long_string(std::string_view text);
  // Appends the bytes of all strings that need it, then the slots.
  template <typename Strings>
  Run put_strings(const Strings& strings) {
    std::vector<uint64_t> at;
    for (const std::string_view text : strings) at.push_back(put_long_string(text));
    const Run run{pad(8), at.size()};
    for (size_t i = 0; const std::string_view text : strings) put_string(text, at[i++]);
    return run;
  }

  // Slots. `at`: the result of put_long_text().
  void put_string(std::string_view text, uint64_t at);
  void put_pointer(uint64_t target);
  void put_run(Run run);

 private:
  std::vector<std::byte> bytes_;
};

// Field offsets in the records of a footer.
inline constexpr Layout kU32{4, 4};
inline constexpr Layout kStringSlot{16, 8};

struct RootLayout {
  static constexpr uint64_t kVersion = 0, kBlocks = 8, kArrays = 24, kAttributeKeys = 40, kAttributeValues = 56;
  static constexpr uint64_t kNumber = 72, kBaseHint = 80;
  static constexpr Layout kLayout{96, 8};
};

// Root and arrays of version 6, where they differ.
struct Root6Layout {
  static constexpr uint64_t kBlocks = 8, kStrings = 24, kAttributeValues = 40, kArrays = 56;
  static constexpr Layout kLayout{72, 8};
};

struct Array6Layout {
  static constexpr uint64_t kAttributes = 136, kHasStatistics = 152, kStatistics = 160;
  static constexpr Layout kLayout{256, 8};
};

struct BlockLayout {
  static constexpr uint64_t kId = 0, kOffset = 8, kStoredBytes = 16, kDecodedBytes = 24, kCodec = 32, kCodecName = 40;
  static constexpr Layout kLayout{56, 8};
};

struct ArrayLayout {
  static constexpr uint64_t kName = 0, kType = 16, kShape = 40, kDimensionNames = 56, kChunkShape = 72, kChunks = 88;
  static constexpr uint64_t kHasFill = 104, kFill = 112, kDeleted = 136, kAttributes = 144;
  static constexpr Layout kLayout{168, 8};
};

struct ChunkLayout {
  static constexpr uint64_t kCoordinate = 0, kBlock = 16, kOffset = 20, kBytes = 24;
  static constexpr Layout kLayout{32, 8};
};

// Types, fill values, attribute values and attribute lists: a tag, and a payload at its own alignment.
struct TaggedLayout {
  static constexpr uint64_t kPayload = 8;
  static constexpr Layout kLayout{24, 8};
};

}  // namespace atompack::array_file
