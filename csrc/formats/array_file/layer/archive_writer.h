// Writer of an archive (FORMAT.md, "Archive"): the targets of a record's pointers precede the record, in the order of
// its fields.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "formats/array_file/layer/archive.h"

namespace atompack::array_file {

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

}  // namespace atompack::array_file
