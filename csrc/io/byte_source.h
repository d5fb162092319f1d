// Ranges of the bytes of a file: the one interface through which formats read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/names.h"
#include "io/read_ahead.h"

namespace atompack::io {

class OpenFile;

// read: by pread, without a mapping, for passes over files that others may truncate in the meantime. direct: past the
// kernel's page cache, for files that are larger than memory.
enum class Access : uint8_t { automatic, random, sequential, read, direct };

constexpr Names<5> names_of(Access) { return {"access", {"auto", "random", "sequential", "read", "direct"}}; }

// The bytes that were read last; one for each thread and purpose.
class RangeBuffer {
 private:
  friend class FileRanges;
  uint64_t source_ = 0;  // its serial number
  uint64_t begin_ = 0;
  std::vector<std::byte> bytes_;
};

// A mapping is the zero-cost case: bytes() is then pointer arithmetic. Const methods are thread-safe.
class ByteSource {
 public:
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  const std::string& path() const { return path_; }
  uint64_t length() const { return length_; }

  // True if all bytes are in memory, and whole() views them.
  bool is_mapped() const { return is_mapped_; }
  Bytes whole() const { return {first_, is_mapped_ ? static_cast<size_t>(length_) : 0}; }

  // Bytes inside of length(): a view of the mapping, or of the buffer that `buffer()` returns, which is valid until
  // that is used again. Up to `ahead` bytes are read together, for small ranges that follow each other. Throws
  // CorruptFileError if the file was truncated.
  template <typename BufferOf>
  Bytes bytes(uint64_t offset, uint64_t n, const BufferOf& buffer, uint64_t ahead = 0) const {
    if (is_mapped_) return {first_ + offset, static_cast<size_t>(n)};
    return read(offset, n, buffer(), ahead);
  }
  Bytes bytes(uint64_t offset, uint64_t n, RangeBuffer& buffer, uint64_t ahead = 0) const {
    return bytes(offset, n, [&]() -> RangeBuffer& { return buffer; }, ahead);
  }

  // The same into memory of the caller.
  virtual void copy(uint64_t offset, std::span<std::byte> into) const;

  // Hint: starts fetching mapped bytes into the CPU cache.
  void prefetch(uint64_t offset, uint64_t n) const {
    if (is_mapped_) atompack::prefetch({first_ + offset, static_cast<size_t>(n)});
  }

  // Reading ahead: ranges that are announced are fetched while others are read. Returns the number of ranges to
  // announce before they are read: 0 if all is in memory, 1 if that is not known yet.
  virtual int64_t window() const { return 0; }
  // Starts fetching, without waiting for it.
  virtual void announce(std::span<const ByteRange>) const {}

  // Updates window() from a sample of ranges that were not announced. is_sample_due() says when to do so before reading
  // a batch; before announcing one it is always done.
  virtual bool is_sample_due() const { return false; }
  virtual void sample(std::span<const ByteRange>) const {}

  // Throws CorruptFileError if the file is shorter now than length(): touching the rest of a mapping would be a SIGBUS.
  virtual void check_not_shrunk() const = 0;

 protected:
  ByteSource(std::string path, uint64_t length) : path_(std::move(path)), length_(length) {}

  void set_memory(const std::byte* first) {
    first_ = first;
    is_mapped_ = true;
  }
  // Sources without a mapping override this and copy().
  virtual Bytes read(uint64_t offset, uint64_t n, RangeBuffer& buffer, uint64_t ahead) const;

 private:
  std::string path_;
  uint64_t length_;
  const std::byte* first_ = nullptr;
  bool is_mapped_ = false;
};

// Bytes in memory: of an owner that is kept, or of the caller, who must outlive it.
class MemoryBytes final : public ByteSource {
 public:
  explicit MemoryBytes(Bytes bytes, std::string path = "", std::shared_ptr<const void> owner = nullptr)
      : ByteSource(std::move(path), bytes.size()), owner_(std::move(owner)) {
    set_memory(bytes.data());
  }
  void check_not_shrunk() const override {}

 private:
  std::shared_ptr<const void> owner_;
};

// The beginning of a file that is not mapped, range by range.
class FileRanges final : public ByteSource {
 public:
  // The file has at least `length` bytes.
  FileRanges(std::shared_ptr<const OpenFile> file, uint64_t length);

  void copy(uint64_t offset, std::span<std::byte> into) const override;
  void check_not_shrunk() const override;
  int64_t window() const override;
  void announce(std::span<const ByteRange> ranges) const override;
  bool is_sample_due() const override;
  void sample(std::span<const ByteRange> ranges) const override;

 private:
  Bytes read(uint64_t offset, uint64_t n, RangeBuffer& buffer, uint64_t ahead) const override;

  std::shared_ptr<const OpenFile> file_;
  uint64_t serial_;
};

// A range that another source has, as a file of its own.
class FileSection final : public ByteSource {
 public:
  FileSection(std::shared_ptr<const ByteSource> whole, ByteRange range);

  void copy(uint64_t offset, std::span<std::byte> into) const override { whole_->copy(begin_ + offset, into); }
  void check_not_shrunk() const override { whole_->check_not_shrunk(); }
  int64_t window() const override { return whole_->window(); }
  void announce(std::span<const ByteRange> ranges) const override { whole_->announce(moved(ranges)); }
  bool is_sample_due() const override { return whole_->is_sample_due(); }
  void sample(std::span<const ByteRange> ranges) const override { whole_->sample(moved(ranges)); }

 private:
  Bytes read(uint64_t offset, uint64_t n, RangeBuffer& buffer, uint64_t ahead) const override;
  std::vector<ByteRange> moved(std::span<const ByteRange> ranges) const;

  std::shared_ptr<const ByteSource> whole_;
  uint64_t begin_;
};

}  // namespace atompack::io
