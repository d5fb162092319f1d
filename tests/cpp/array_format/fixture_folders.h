// Where the files that the library wrote lie.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace atompack::test {

inline std::filesystem::path atlas_fixtures() {
  const char* const named = std::getenv("ATOMPACK_FIXTURES");
  return std::filesystem::path(named != nullptr ? named : ATOMPACK_FIXTURES_FOLDER) / "atlas";
}

// All files of this extension below the stores that are sound.
inline std::vector<std::filesystem::path> fixture_files(const std::string& extension) {
  std::vector<std::filesystem::path> found;
  if (!std::filesystem::is_directory(atlas_fixtures())) return found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(atlas_fixtures())) {
    const bool sound = entry.path().string().find("/reject/") == std::string::npos;
    if (sound && entry.path().extension() == extension) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace atompack::test
