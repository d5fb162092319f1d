#include "formats/array_file/layer/archive_writer.h"

#include "formats/array_file/layer/records.h"

namespace atompack::array_file {

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
