// Where the stores of the original writer lie.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <vector>

namespace atompack::test {

inline std::filesystem::path atlas_fixtures() {
  const char* const root = std::getenv("ATOMPACK_FIXTURES");
  return std::filesystem::path(root != nullptr ? root : ATOMPACK_FIXTURES_FOLDER) / "atlas";
}

// Every store, those that are damaged not.
inline std::vector<std::filesystem::path> atlas_stores() {
  std::vector<std::filesystem::path> stores;
  for (const auto& entry : std::filesystem::directory_iterator(atlas_fixtures())) {
    if (entry.is_directory() && entry.path().filename() != "reject") stores.push_back(entry.path());
  }
  return stores;
}

}  // namespace atompack::test
