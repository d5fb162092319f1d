// Files that are written from front to back, once.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "io/unique_fd.h"

namespace atompack::io {

// For one thread at a time. Every failure is an IoError that names the path.
class OutputFile {
 public:
  // Nothing may be there yet.
  explicit OutputFile(std::string path);

  uint64_t size() const { return size_; }
  void append(Bytes bytes);
  // What was appended is durable; the file's name is not (UnpublishedFolder::publish).
  void sync();

 private:
  std::string path_;
  UniqueFd fd_;
  uint64_t size_ = 0;
};

// A whole small file, synced.
void write_new(const std::string& path, Bytes bytes);

}  // namespace atompack::io
