// Open file of the file system.
#pragma once

#include <atomic>
#include <string>

#include "io/byte_source.h"
#include "io/open_file.h"
#include "io/unique_fd.h"

namespace atompack::io {

class LocalFile final : public OpenFile {
 public:
  explicit LocalFile(std::string path);
  // The file at `place`, which errors call `path`: a copy of a remote file.
  LocalFile(const std::string& place, std::string path);

  const std::string& path() const override { return path_; }
  uint64_t size() const override;
  size_t read_at(uint64_t offset, std::span<std::byte> into) const override;
  const FileVersion& version() const override { return version_; }
  std::unique_ptr<const ByteSource> bytes(uint64_t length, Access access, bool populate = false) const override;

  int64_t window() const override { return residency_.window(); }
  void announce(std::span<const ByteRange> ranges) const override;
  bool is_sample_due() const override { return residency_.is_due(); }
  void sample(std::span<const ByteRange> ranges) const override { residency_.sample(fd(), ranges); }

  int fd() const { return fd_.get(); }

 private:
  std::string path_;
  UniqueFd fd_;
  FileVersion version_;
  Residency residency_;
};

// Read-only mapping of the beginning of a file.

// Keeps the file open, so that truncation is detected before the mapping is touched.
class MappedFile final : public ByteSource {
 public:
  // Maps the first `length` bytes, which the file has. `populate` reads them into memory immediately.
  MappedFile(std::shared_ptr<const LocalFile> file, uint64_t length, Access access, bool populate);
  ~MappedFile() override;

  void check_not_shrunk() const override;
  int64_t window() const override { return adapts_ ? residency_.window() : 0; }
  void announce(std::span<const ByteRange> ranges) const override;
  bool is_sample_due() const override { return adapts_ && residency_.is_due(); }
  void sample(std::span<const ByteRange> ranges) const override;

 private:
  std::shared_ptr<const LocalFile> file_;
  void* address_ = nullptr;
  bool adapts_;  // reads ahead where the file is not in memory
  Residency residency_;
  mutable std::atomic<bool> is_random_;  // the kernel does not read ahead by itself
};

// Throws CorruptFileError if the file is shorter now.
void check_file_length(const OpenFile& file, uint64_t length);

}  // namespace atompack::io
