// Open file of the file system.
#pragma once

#include <string>

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

}  // namespace atompack::io
