// New files written once, from front to back.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "io/unique_fd.h"

namespace atompack::io {

// For one thread at a time. Every failure is an IoError that names the path.
class OutputFile {
 public:
  // IoError (EEXIST) if the path exists.
  explicit OutputFile(std::string path);

  uint64_t size() const { return size_; }
  void append(Bytes bytes);
  // Makes the appended data durable, but not the file's name (UnpublishedFolder::publish).
  void sync();

 private:
  std::string path_;
  UniqueFd fd_;
  uint64_t size_ = 0;
};

// Writes and syncs a whole small file.
void write_new(const std::string& path, Bytes bytes);

}  // namespace atompack::io
