// Read-only mapping of the beginning of a file.
#pragma once

#include <atomic>

#include "io/byte_source.h"
#include "io/local_file.h"

namespace atompack::io {

// Keeps the file open, so that truncation is detected before the mapping is touched.
class MappedFile final : public ByteSource {
 public:
  // Maps the first `length` bytes, which the file has. `populate` reads them into memory at once.
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
