// The input as a file without a name: nothing is written to a disk.
#pragma once

#include <unistd.h>

#include <string>

#include "io/shared_ring.h"
#include "targets.h"

namespace atompack::fuzz {

class FileInMemory {
 public:
  FileInMemory() : fd_(io::create_shared_memory(0)), path_(cat("/proc/self/fd/", fd_.get())) {}

  const std::string& hold(Bytes bytes) const {
    const bool cut = ::ftruncate(fd_.get(), 0) == 0;
    const ssize_t n = ::pwrite(fd_.get(), bytes.data(), bytes.size(), 0);
    require(cut && n == static_cast<ssize_t>(bytes.size()), "the input is held in memory");
    return path_;
  }

 private:
  io::UniqueFd fd_;
  std::string path_;
};

}  // namespace atompack::fuzz
