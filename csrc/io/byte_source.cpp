#include "io/byte_source.h"

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "io/local_file.h"
#include "io/open_file.h"

namespace atompack::io {
namespace {

uint64_t next_source_serial() {
  static std::atomic<uint64_t> last{0};
  return ++last;  // 0 means no source
}

[[noreturn]] void fail_shrunk(const std::string& path, uint64_t expected, uint64_t got) {
  throw CorruptFileError(cat("the file shrank while it was open: expected ", expected, " bytes, got ", got))
      .in_file(path);
}

}  // namespace

void check_file_length(const OpenFile& file, uint64_t length) {
  const uint64_t size = file.size();
  if (size < length) fail_shrunk(file.path(), length, size);
}

void ByteSource::copy(uint64_t offset, std::span<std::byte> into) const {
  std::ranges::copy(whole().subspan(offset, into.size()), into.begin());
}

Bytes ByteSource::read(uint64_t offset, uint64_t n, RangeBuffer&, uint64_t) const { return whole().subspan(offset, n); }

FileRanges::FileRanges(std::shared_ptr<const OpenFile> file, uint64_t length)
    : ByteSource(file->path(), length), file_(std::move(file)), serial_(next_source_serial()) {}

Bytes FileRanges::read(uint64_t offset, uint64_t n, RangeBuffer& buffer, uint64_t ahead) const {
  const bool is_held = buffer.source_ == serial_ && offset >= buffer.begin_ &&
                       offset - buffer.begin_ <= buffer.bytes_.size() &&
                       n <= buffer.bytes_.size() - (offset - buffer.begin_);
  if (!is_held) {
    buffer.source_ = 0;  // in case the read fails
    buffer.bytes_.resize(std::max(n, std::min(ahead, length() - offset)));
    const size_t got = file_->read_at(offset, buffer.bytes_);
    if (got < n) fail_shrunk(path(), offset + n, offset + got);
    buffer.bytes_.resize(got);
    buffer.begin_ = offset;
    buffer.source_ = serial_;
  }
  return Bytes(buffer.bytes_).subspan(offset - buffer.begin_, n);
}

void FileRanges::copy(uint64_t offset, std::span<std::byte> into) const {
  const size_t got = file_->read_at(offset, into);
  if (got < into.size()) fail_shrunk(path(), offset + into.size(), offset + got);
}

void FileRanges::check_not_shrunk() const { check_file_length(*file_, length()); }

int64_t FileRanges::window() const { return file_->window(); }

void FileRanges::announce(std::span<const ByteRange> ranges) const { file_->announce(ranges); }

bool FileRanges::is_sample_due() const { return file_->is_sample_due(); }

void FileRanges::sample(std::span<const ByteRange> ranges) const { file_->sample(ranges); }

FileSection::FileSection(std::shared_ptr<const ByteSource> whole, ByteRange range)
    : ByteSource(whole->path(), range.length), whole_(std::move(whole)), begin_(range.offset) {
  if (whole_->is_mapped()) set_memory(whole_->whole().data() + begin_);
}

Bytes FileSection::read(uint64_t offset, uint64_t n, RangeBuffer& buffer, uint64_t ahead) const {
  return whole_->bytes(begin_ + offset, n, buffer, std::min(ahead, length() - offset));
}

std::vector<ByteRange> FileSection::moved(std::span<const ByteRange> ranges) const {
  std::vector<ByteRange> moved(ranges.begin(), ranges.end());
  for (ByteRange& range : moved) range.offset += begin_;
  return moved;
}

}  // namespace atompack::io
