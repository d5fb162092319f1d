#include "formats/array_file/layer/archive.h"

#include "base/utf8.h"

namespace atompack::array_file {
namespace {

constexpr uint64_t kStringBytes = 16;  // size of the slot, and maximum length of an inline string

bool is_out_of_line(const std::byte* slot) { return (slot[0] & std::byte{0xC0}) == std::byte{0x80}; }

// Two marker bits separate the six lowest bits from the others.
uint64_t out_of_line_length(const std::byte* slot) {
  const auto marked = load_le<uint64_t>(slot);
  return (marked & 0x3F) | ((marked >> 2) & ~uint64_t{0x3F});
}

Bytes inline_string(const std::byte* slot) {
  uint64_t length = 0;
  while (length < kStringBytes && slot[length] != std::byte{0xFF}) ++length;
  return {slot, length};
}

}  // namespace

uint64_t Archive::target(uint64_t slot) const { return slot + static_cast<uint64_t>(load<int64_t>(slot)); }

Run Archive::run(uint64_t slot) const { return {target(slot), load<uint64_t>(slot + 8)}; }

std::string_view Archive::text(uint64_t slot) const {
  const std::byte* const from = bytes_.data() + slot;
  if (!is_out_of_line(from)) return as_text(inline_string(from));
  const uint64_t at = slot + static_cast<uint64_t>(load<int64_t>(slot + 8));
  return as_text(bytes_.subspan(at, out_of_line_length(from)));
}

void ArchiveCheck::text(uint64_t slot, std::string_view what) {
  const std::byte* const from = bytes_.data() + slot;
  Bytes held;
  if (is_out_of_line(from)) {
    const uint64_t length = out_of_line_length(from);
    if (length <= kStringBytes) {
      throw CorruptFileError(cat(what, ": expected more than 16 bytes outside of its slot, got ", length), slot);
    }
    const uint64_t at = claim(slot, load<int64_t>(slot + 8), {length, 1}, what);
    held = bytes_.subspan(at, length);
    low_ = at + length;
  } else {
    held = inline_string(from);
  }
  if (!is_utf8(held)) throw CorruptFileError(cat(what, ": expected UTF-8, got other bytes"), slot);
}

void ArchiveCheck::boolean(uint64_t at, std::string_view what) const { tag(at, 2, what); }

uint8_t ArchiveCheck::tag(uint64_t at, uint8_t end, std::string_view what) const {
  const auto found = load<uint8_t>(at);
  if (found >= end) throw CorruptFileError(cat(what, ": expected less than ", +end, ", got ", +found), at);
  return found;
}

Run ArchiveCheck::claim_run(uint64_t slot, Layout element, std::string_view what) const {
  const auto count = load<uint64_t>(slot + 8);
  if (const uint64_t limit = (high_ - low_) / element.bytes; count > limit) {
    throw CorruptFileError(cat(what, ": expected a count of at most ", limit, ", got ", count), slot);
  }
  return {claim(slot, load<int64_t>(slot), {count * element.bytes, element.alignment}, what), count};
}

uint64_t ArchiveCheck::claim(uint64_t base, int64_t distance, Layout pointee, std::string_view what) const {
  int64_t at = 0;
  const bool wraps = __builtin_add_overflow(static_cast<int64_t>(base), distance, &at);
  const auto place = static_cast<uint64_t>(at);
  if (wraps || place < low_ || place > high_ || pointee.bytes > high_ - place || place % pointee.alignment != 0) {
    throw CorruptFileError(cat(what, ": expected ", pointee.bytes, " bytes aligned to ", pointee.alignment, " in ",
                               low_, "..", high_, ", got a pointer to ", at),
                           base);
  }
  return place;
}

uint64_t ArchiveWriter::pad(uint64_t alignment) {
  bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
  return size();
}

uint64_t ArchiveWriter::put_bytes(Bytes bytes) {
  const uint64_t at = size();
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return at;
}

Run ArchiveWriter::put_integers(std::span<const uint64_t> values) {
  const Run run{pad(kU32.alignment), values.size()};
  for (const uint64_t value : values) put(static_cast<uint32_t>(value));
  return run;
}

uint64_t ArchiveWriter::put_long_string(std::string_view text) {
  return text.size() > kStringSlot.bytes ? put_bytes(as_bytes(text)) : size();
}

void ArchiveWriter::put_string(std::string_view text, uint64_t at) {
  if (text.size() <= kStringSlot.bytes) {
    put_bytes(as_bytes(text));
    bytes_.resize(bytes_.size() + kStringSlot.bytes - text.size(), std::byte{0xFF});
    return;
  }
  const uint64_t slot = size(), length = text.size();
  put((length & 0x3F) | 0x80 | ((length & ~uint64_t{0x3F}) << 2));
  put(static_cast<int64_t>(at - slot));
}

void ArchiveWriter::put_pointer(uint64_t target) { put(static_cast<int64_t>(target - size())); }

void ArchiveWriter::put_run(Run run) {
  put_pointer(run.at);
  put(run.count);
}

}  // namespace atompack::array_file
