// The folder of the files that the original libraries wrote.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"

namespace atompack::test {

inline std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InternalError(cat("no file ", path));
  return {std::istreambuf_iterator<char>(in), {}};
}

// tests/fixtures of the repository, or the folder of the same layout that ATOMPACK_FIXTURES names.
std::filesystem::path fixtures_root();

inline std::filesystem::path atlas_fixtures() { return fixtures_root() / "atlas"; }

// Every store but those that are damaged.
inline std::vector<std::filesystem::path> atlas_stores() {
  std::vector<std::filesystem::path> stores;
  for (const auto& entry : std::filesystem::directory_iterator(atlas_fixtures())) {
    if (entry.is_directory() && entry.path().filename() != "reject") stores.push_back(entry.path());
  }
  std::ranges::sort(stores);
  return stores;
}

// All files of this extension in those stores.
inline std::vector<std::filesystem::path> fixture_files(const std::string& extension) {
  std::vector<std::filesystem::path> found;
  for (const auto& store : atlas_stores()) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(store)) {
      if (entry.path().extension() == extension) found.push_back(entry.path());
    }
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace atompack::test
