#include "io/folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "io/file.h"
#include "io/temporary_folder.h"

namespace atompack::io {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

TEST(UnpublishedFolder, AppearsWhole) {
  const TemporaryFolder parent;
  const std::string path = parent.path() + "/set";
  UnpublishedFolder folder(path);
  folder.make_folder("7");
  write_new(folder.inside("7/file"), as_bytes("content"));
  folder.rename("7", "07");
  EXPECT_FALSE(fs::exists(path));
  folder.publish();
  EXPECT_EQ(fs::file_size(path + "/07/file"), 7u);
  EXPECT_FALSE(fs::exists(folder.present_path()));
}

TEST(UnpublishedFolder, GoesAwayWithItsOwner) {
  const TemporaryFolder parent;
  {
    UnpublishedFolder folder(parent.path() + "/set");
    folder.make_folder("0");
  }
  EXPECT_TRUE(fs::is_empty(parent.path()));
}

TEST(UnpublishedFolder, StaysWhereAForkEnds) {
  const TemporaryFolder parent;
  UnpublishedFolder folder(parent.path() + "/set");
  const pid_t child = ::fork();
  if (child == 0) {
    folder.~UnpublishedFolder();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  folder.publish();
  EXPECT_TRUE(fs::exists(parent.path() + "/set"));
}

TEST(UnpublishedFolder, OneWriterAtATime) {
  const TemporaryFolder parent;
  const std::string path = parent.path() + "/set";
  UnpublishedFolder folder(path);
  EXPECT_THROW(UnpublishedFolder other(path), LockedError);
  EXPECT_TRUE(fs::exists(folder.present_path()));
}

TEST(UnpublishedFolder, NothingIsReplaced) {
  const TemporaryFolder parent;
  const std::string path = parent.path() + "/set";
  UnpublishedFolder folder(path);
  fs::create_directory(path);
  EXPECT_THROW(folder.publish(), IoError);
  EXPECT_THROW(UnpublishedFolder other(path), IoError);
  EXPECT_THROW(UnpublishedFolder nowhere(parent.path() + "/a/b"), IoError);
}

TEST(UnpublishedFolder, NoLinkIsFollowed) {
  const TemporaryFolder parent;
  fs::create_directory(parent.path() + "/precious");
  write_new(parent.path() + "/precious/file", as_bytes("x"));
  fs::create_directory_symlink("precious", parent.path() + "/.set.new");
  EXPECT_THROW(UnpublishedFolder folder(parent.path() + "/set"), IoError);
  EXPECT_TRUE(fs::exists(parent.path() + "/precious/file"));
}

TEST(OutputFile, FromFrontToBack) {
  const TemporaryFolder parent;
  const std::string path = parent.path() + "/file";
  {
    OutputFile file(path);
    file.append(as_bytes("ab"));
    file.append({});
    file.append(as_bytes("cde"));
    file.sync();
    EXPECT_EQ(file.size(), 5u);
  }
  EXPECT_EQ(fs::file_size(path), 5u);
  EXPECT_THROW(OutputFile again(path), IoError) << "nothing is overwritten";
}

}  // namespace
}  // namespace atompack::io
