// The archive in which a file describes itself (FORMAT.md, "Archive"): records that point at what lies before them.
// Positions count from its first byte. Nothing is copied out of it; every load is a memcpy, so it may lie anywhere.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace atompack::array_file {

// A run of equal elements inside an archive that was checked.
struct Run {
  uint64_t at = 0;
  uint64_t count = 0;
};

struct Layout {
  uint64_t bytes = 0;
  uint64_t alignment = 8;
};

// An archive whose bounds were checked by ArchiveCheck: what is read here is inside of it.
class Archive {
 public:
  explicit Archive(Bytes bytes) : bytes_(bytes) {}

  uint64_t size() const { return bytes_.size(); }

  template <typename T>
  T load(uint64_t at) const {
    return load_le<T>(bytes_.data() + at);
  }
  Run run(uint64_t slot) const;
  // The place that the relative pointer at `slot` means.
  uint64_t target(uint64_t slot) const;
  std::string_view text(uint64_t slot) const;

 private:
  Bytes bytes_;
};

// Proves that an archive is a tree: children lie before their parents, in the order of the fields, and share nothing.
// So whatever passes is inside the archive, and walking over it ends. Throws CorruptFileError.
class ArchiveCheck {
 public:
  // `root` is where the root record begins; the records that it points at lie before it.
  ArchiveCheck(Bytes archive, uint64_t root) : bytes_(archive), high_(root) {}

  // The vector at `slot`; `each(at)` checks one of its elements.
  template <typename Each>
  void vector(uint64_t slot, Layout element, std::string_view what, const Each& each) {
    const Run run = claim_run(slot, element, what);
    const uint64_t outer = high_;
    high_ = run.at;
    for (uint64_t i = 0; i < run.count; ++i) each(run.at + i * element.bytes);
    leave(run.at + run.count * element.bytes, outer);
  }
  // A vector of integers, which are all valid.
  void integers(uint64_t slot, Layout element, std::string_view what) {
    const Run run = claim_run(slot, element, what);
    low_ = run.at + run.count * element.bytes;
  }
  void text(uint64_t slot, std::string_view what);
  void boolean(uint64_t at, std::string_view what) const;
  // A tag below `end`.
  uint8_t tag(uint64_t at, uint8_t end, std::string_view what) const;
  // Follows the single pointers at slot + `pointer` as long as `goes_on(slot)`, to records of 24 bytes.
  // In a loop: a file can nest them deeper than a stack is.
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
  // Where base + distance leads, if there is room for `bytes` there.
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
  uint64_t low_ = 0, high_ = 0;  // what may still be pointed at
};

}  // namespace atompack::array_file
