#include "io/byte_source.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "io/mapped_file.h"

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

void check_file_length(const UniqueFd& fd, const ByteSource& source) {
  const uint64_t size = identify(fd.get(), source.path()).size;
  if (size < source.length()) fail_shrunk(source.path(), source.length(), size);
}

void ByteSource::copy(uint64_t offset, std::span<std::byte> into) const {
  std::ranges::copy(whole().subspan(offset, into.size()), into.begin());
}

Bytes ByteSource::read(uint64_t offset, uint64_t n, RangeBuffer&, uint64_t) const { return whole().subspan(offset, n); }

FileRanges::FileRanges(UniqueFd fd, uint64_t length, std::string path)
    : ByteSource(std::move(path), length), fd_(std::move(fd)), serial_(next_source_serial()) {}

Bytes FileRanges::read(uint64_t offset, uint64_t n, RangeBuffer& buffer, uint64_t ahead) const {
  const bool is_held = buffer.source_ == serial_ && offset >= buffer.begin_ &&
                       offset - buffer.begin_ <= buffer.bytes_.size() &&
                       n <= buffer.bytes_.size() - (offset - buffer.begin_);
  if (!is_held) {
    buffer.source_ = 0;  // in case the read fails
    buffer.bytes_.resize(std::max(n, std::min(ahead, length() - offset)));
    const size_t got = read_at(fd_.get(), offset, buffer.bytes_, path());
    if (got < n) fail_shrunk(path(), offset + n, offset + got);
    buffer.bytes_.resize(got);
    buffer.begin_ = offset;
    buffer.source_ = serial_;
  }
  return Bytes(buffer.bytes_).subspan(offset - buffer.begin_, n);
}

void FileRanges::copy(uint64_t offset, std::span<std::byte> into) const {
  const size_t got = read_at(fd_.get(), offset, into, path());
  if (got < into.size()) fail_shrunk(path(), offset + into.size(), offset + got);
}

void FileRanges::announce(std::span<const ByteRange> ranges) const {
  for_each_page_run(ranges, length(), [&](const ByteRange& run) {
    ::posix_fadvise(fd_.get(), static_cast<off_t>(run.offset), static_cast<off_t>(run.length), POSIX_FADV_WILLNEED);
  });
}

void FileRanges::check_not_shrunk() const { check_file_length(fd_, *this); }

std::unique_ptr<const ByteSource> open_bytes(UniqueFd fd, uint64_t length, std::string path, Access access,
                                             bool populate) {
  if (access == Access::read) return std::make_unique<const FileRanges>(std::move(fd), length, std::move(path));
  return std::make_unique<const MappedFile>(std::move(fd), length, std::move(path), access, populate);
}

}  // namespace atompack::io
