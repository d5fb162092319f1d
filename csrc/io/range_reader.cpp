#include "io/range_reader.h"

#include <algorithm>
#include <atomic>

#include "base/error.h"

namespace atompack::io {
namespace {

uint64_t next_serial() {
  static std::atomic<uint64_t> last{0};
  return ++last;  // 0 means no reader
}

}  // namespace

RangeReader::RangeReader(UniqueFd fd, uint64_t length, std::string path)
    : fd_(std::move(fd)), path_(std::move(path)), length_(length), serial_(next_serial()) {}

Bytes RangeReader::read(uint64_t offset, uint64_t n, RangeBuffer& buffer, uint64_t ahead) const {
  const bool is_held = buffer.reader_ == serial_ && offset >= buffer.begin_ &&
                       offset - buffer.begin_ <= buffer.bytes_.size() &&
                       n <= buffer.bytes_.size() - (offset - buffer.begin_);
  if (!is_held) {
    buffer.reader_ = 0;  // in case the read fails
    buffer.bytes_.resize(std::max(n, std::min(ahead, length_ - offset)));
    const size_t got = read_at(fd_.get(), offset, buffer.bytes_, path_);
    if (got < n) fail_cut(offset + n, offset + got);
    buffer.bytes_.resize(got);
    buffer.begin_ = offset;
    buffer.reader_ = serial_;
  }
  return Bytes(buffer.bytes_).subspan(offset - buffer.begin_, n);
}

void RangeReader::read(uint64_t offset, std::span<std::byte> into) const {
  const size_t got = read_at(fd_.get(), offset, into, path_);
  if (got < into.size()) fail_cut(offset + into.size(), offset + got);
}

void RangeReader::check_not_shrunk() const {
  if (const uint64_t size = identify(fd_.get(), path_).size; size < length_) fail_cut(length_, size);
}

void RangeReader::fail_cut(uint64_t expected, uint64_t got) const {
  throw CorruptFileError(cat("the file shrank while it was open: expected ", expected, " bytes, got ", got))
      .in_file(path_);
}

}  // namespace atompack::io
