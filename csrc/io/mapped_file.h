// Read-only mapping of the beginning of a file.
#pragma once

#include "io/byte_source.h"

namespace atompack::io {

// Holds its descriptor, so that truncation is detected before the mapping is touched.
class MappedFile final : public ByteSource {
 public:
  // Maps the first `length` bytes, which the file has. `populate` reads them into memory at once.
  MappedFile(UniqueFd fd, uint64_t length, std::string path, Access access, bool populate);
  ~MappedFile() override;

  void check_not_shrunk() const override;

 private:
  UniqueFd fd_;
  void* address_ = nullptr;
};

// Throws CorruptFileError if the file is shorter now than the source.
void check_file_length(const UniqueFd& fd, const ByteSource& source);

}  // namespace atompack::io
