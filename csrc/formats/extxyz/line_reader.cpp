#include "formats/extxyz/line_reader.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"

namespace atompack::extxyz {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr size_t kMaxLineBytes = 64 << 20;

void check_length(size_t bytes, uint64_t offset) {
  if (bytes > kMaxLineBytes) {
    throw CorruptFileError(cat("line: expected at most ", kMaxLineBytes, " bytes, got more"), offset);
  }
}

}  // namespace

LineReader::LineReader(std::string path)
    : path_(std::move(path)),
      fd_(io::open_for_reading(path_)),
      file_bytes_(io::identify(fd_.get(), path_).size),
      buffer_(static_cast<size_t>(std::min<uint64_t>(file_bytes_ + 1, kBufferBytes))),
      data_(buffer_.data()) {
  refill();
  const std::string_view text(data_, end_);
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    throw UnsupportedFormatError("text: expected UTF-8, got UTF-16: save the file as UTF-8");
  }
  if (text.starts_with("\xEF\xBB\xBF")) begin_ = 3;  // a mark that some editors put there
}

LineReader::LineReader(Bytes text, uint64_t offset)
    : file_bytes_(offset + text.size()),
      read_offset_(file_bytes_),
      data_(reinterpret_cast<const char*>(text.data())),
      end_(text.size()) {}

// Moves the unread bytes to the front and reads more after them; false at the end of the file.
bool LineReader::refill() {
  if (read_offset_ == file_bytes_) return false;
  const size_t kept = end_ - begin_;
  check_length(kept, next_offset());
  if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, kept);
  begin_ = 0;
  end_ = kept;
  if (kept > buffer_.size() / 2) buffer_.resize(2 * buffer_.size());
  data_ = buffer_.data();
  const auto wanted = static_cast<size_t>(std::min<uint64_t>(buffer_.size() - end_, file_bytes_ - read_offset_));
  const auto into = std::as_writable_bytes(std::span(buffer_).subspan(end_, wanted));
  const size_t got = io::read_at(fd_.get(), read_offset_, into, path_);
  if (got < wanted) {
    throw CorruptFileError(
        cat("the file shrank while it was open: expected ", file_bytes_, " bytes, got ", read_offset_ + got));
  }
  end_ += got;
  read_offset_ += got;
  return true;
}

std::optional<std::string_view> LineReader::next() {
  const void* found = nullptr;
  for (size_t looked_at = 0;;) {
    found = std::memchr(data_ + begin_ + looked_at, '\n', end_ - begin_ - looked_at);
    if (found != nullptr) break;
    looked_at = end_ - begin_;
    if (!refill()) break;
  }
  if (begin_ == end_) return std::nullopt;
  line_offset_ = next_offset();
  const char* const begin = data_ + begin_;
  const char* const stop = found != nullptr ? static_cast<const char*>(found) : data_ + end_;
  ends_open_ = found == nullptr;
  std::string_view line(begin, static_cast<size_t>(stop - begin));
  check_length(line.size(), line_offset_);
  begin_ += line.size() + (found != nullptr ? 1 : 0);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

void LineReader::seek(uint64_t offset) {
  begin_ = end_ = 0;
  read_offset_ = offset;
}

bool LineReader::skip(int64_t n_lines) {
  for (int64_t i = 0; i < n_lines; ++i) {
    const void* const found = begin_ < end_ ? std::memchr(data_ + begin_, '\n', end_ - begin_) : nullptr;
    if (found == nullptr) {
      if (!next()) return false;
      continue;
    }
    begin_ = static_cast<size_t>(static_cast<const char*>(found) - data_) + 1;
    ends_open_ = false;
  }
  return true;
}

}  // namespace atompack::extxyz
