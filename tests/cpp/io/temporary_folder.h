// A folder of its own for a test, removed with its owner.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/error.h"

namespace atompack::test {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_(testing::TempDir() + "atompack_XXXXXX") {
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

}  // namespace atompack::test
