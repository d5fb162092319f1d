// Runs every file of the given folders through all fuzz targets, without libFuzzer: a regression test for any compiler.
//   replay FIXTURES FOLDER...
// ATOMPACK_FIXTURES, the folder above atp/, replaces FIXTURES.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "targets.h"

namespace {

namespace fs = std::filesystem;
using atompack::fuzz::kTargets;

std::vector<char> contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

size_t replay(const fs::path& folder) {
  size_t n = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::vector<char> bytes = contents(entry.path());
    for (const auto& target : kTargets) target.run(std::as_bytes(std::span(bytes)));
    ++n;
  }
  std::printf("%zu files of %s\n", n, folder.c_str());
  return n;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s FIXTURES FOLDER...\n", argv[0]);
    return 2;
  }
  std::vector<fs::path> folders(argv + 2, argv + argc);
  const char* const root = std::getenv("ATOMPACK_FIXTURES");
  const fs::path fixtures = fs::path(root != nullptr && *root != '\0' ? root : argv[1]) / "atp";
  if (!fs::is_directory(fixtures)) {
    std::fprintf(stderr, "%s: expected a folder of fixtures\n", fixtures.c_str());
    return 1;
  }
  folders.push_back(fixtures);
  for (const fs::path& folder : folders) {
    if (replay(folder) == 0) return 1;
  }
  return 0;
}
