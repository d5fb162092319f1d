// Archive that describes a file's contents (FORMAT.md, "Archive"): records with pointers to preceding data. Positions
// count from its first byte. It is not copied; every load is a memcpy, so it may be unaligned.
#pragma once

#include <cstdint>
#include <string_view>

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

}  // namespace atompack::array_file
