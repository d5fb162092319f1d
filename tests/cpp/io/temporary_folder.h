// Folders for tests.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/error.h"

namespace atompack::test {

inline std::string folder_on_disk() { return std::filesystem::temp_directory_path().string() + "/"; }

// A folder of its own for a test, removed with its owner.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& parent = folder_on_disk()) : path_(parent + "atompack_XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw InternalError("no folder for the test");
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) found.insert(entry.path().filename().string());
    return found;
  }

 private:
  std::string path_;
};

// Where nothing waits for a disk, for tests that sync thousands of times.
inline std::string folder_in_memory() {
  const std::string folder = "/dev/shm/";
  return std::filesystem::is_directory(folder) ? folder : folder_on_disk();
}

}  // namespace atompack::test
