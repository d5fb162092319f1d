// A file of given bytes under a name of its own, removed with its owner.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "io/unique_fd.h"

namespace atompack::test {

class TemporaryFile {
 public:
  explicit TemporaryFile(Bytes bytes) : path_(testing::TempDir() + "atompack_XXXXXX") {
    const io::UniqueFd fd(::mkstemp(path_.data()));
    if (!fd) throw IoError(errno, std::strerror(errno), path_);
    write(bytes);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }

  const std::string& path() const { return path_; }

  // Other bytes in the same file.
  void write(Bytes bytes) const {
    std::ofstream out(path_, std::ios::binary | std::ios::trunc);
    out.write(as_text(bytes).data(), static_cast<std::streamsize>(bytes.size()));
  }
  void resize(uint64_t bytes) const { std::filesystem::resize_file(path_, bytes); }
  // Another file at the same path: the old one lives on for those who have it open.
  void replace(Bytes bytes) const {
    const TemporaryFile fresh(bytes);
    std::filesystem::rename(fresh.path(), path_);
  }

 private:
  std::string path_;
};

inline size_t count_open_descriptors() {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

}  // namespace atompack::test
