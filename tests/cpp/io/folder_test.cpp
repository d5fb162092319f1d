#include "io/folder.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace atompack::io {
namespace {

namespace fs = std::filesystem;

TEST(Folder, NamesOfFoldersInTheOrderOfTheirBytes) {
  const fs::path folder = fs::temp_directory_path() / cat("atompack_folder_test_", ::getpid());
  for (const char* name : {"2", "10", ".hidden", "a"}) fs::create_directories(folder / name);
  std::ofstream(folder / "file") << "x";
  fs::create_directory_symlink(folder / "a", folder / "link");
  fs::create_symlink(folder / "nowhere", folder / "broken");
  EXPECT_EQ(folders_in(folder), (std::vector<std::string>{".hidden", "10", "2", "a", "link"}));
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{".hidden", "10", "2", "a", "broken", "file", "link"}));
  EXPECT_TRUE(names_in(folder / "a").empty());
  fs::remove_all(folder);
  EXPECT_THROW(folders_in(folder), IoError);
  EXPECT_THROW(names_in(folder), IoError);
}

}  // namespace
}  // namespace atompack::io
