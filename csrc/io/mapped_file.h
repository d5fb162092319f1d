// Read-only mapping of the beginning of a file.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "io/file.h"

namespace atompack::io {

// `read`: by pread, without a mapping, for readers that support it.
enum class Access : uint8_t { automatic, random, sequential, read };

// Keeps its descriptor so that truncation is noticed before the mapping is touched. Const methods are thread-safe.
class MappedFile {
 public:
  // Maps the first `length` bytes, which must exist. `populate` reads them into memory at once.
  MappedFile(UniqueFd fd, uint64_t length, std::string path, Access access, bool populate);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  Bytes bytes() const { return {static_cast<const std::byte*>(address_), static_cast<size_t>(length_)}; }
  const std::string& path() const { return path_; }
  FileIdentity identity() const { return identify(fd_.get(), path_); }

  // Throws CorruptFileError if the file is shorter than the mapping: touching the missing part would raise SIGBUS.
  void check_not_shrunk() const;

 private:
  UniqueFd fd_;
  std::string path_;
  void* address_ = nullptr;
  uint64_t length_ = 0;
};

}  // namespace atompack::io
