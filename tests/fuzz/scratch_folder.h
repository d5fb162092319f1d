// A folder of one run of a target.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "targets.h"

namespace atompack::fuzz {

// In memory where there is such a place: nothing has to wait for a disk.
class ScratchFolder {
 public:
  ScratchFolder() : path_(std::filesystem::is_directory("/dev/shm") ? "/dev/shm/fuzz_XXXXXX" : "/tmp/fuzz_XXXXXX") {
    require(::mkdtemp(path_.data()) != nullptr, "a folder can be made");
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { std::filesystem::remove_all(path_); }

  std::string inside(const char* name) const { return path_ + '/' + name; }

 private:
  std::string path_;
};

}  // namespace atompack::fuzz
