#include "io/file_system.h"

#include <gtest/gtest.h>

#include "byte_string.h"
#include "fixtures.h"
#include "io/faulty_file_system.h"
#include "io/file.h"
#include "io/temporary_folder.h"
#include "message_of.h"

namespace atompack::io {
namespace {

using test::ByteString;
using test::contents;
using test::FaultyFileSystem;
using test::TemporaryFolder;
using Names = std::set<std::string>;

TEST(FileSystem, NewFilesAreSeenOncePublished) {
  const TemporaryFolder folder;
  {
    const auto file = real_file_system().create(folder / "a");
    file->write_at(0, ByteString("hello").bytes());
    EXPECT_EQ(folder.names(), (Names{".a.new"}));
    file->publish(false);
    EXPECT_TRUE(file->is_published());
    EXPECT_EQ(test::message_of<LockedError>([&] { real_file_system().lock(folder / "a"); }),
              folder / "a" + ": another writer has this file open");
  }
  EXPECT_EQ(contents(folder / "a"), "hello");
  {
    const auto dropped = real_file_system().create(folder / "b");
  }
  EXPECT_EQ(folder.names(), (Names{"a"}));
}

TEST(FileSystem, MakesFoldersReplacesAndRemovesFiles) {
  for (FileSystem* files : {&real_file_system(), &unsynced_file_system()}) {
    const TemporaryFolder folder;
    EXPECT_TRUE(files->make_folder(folder / "f"));
    EXPECT_FALSE(files->make_folder(folder / "f"));
    files->sync_folder(folder / "f");
    replace_file(*files, folder / "f/a", ByteString("old").bytes());
    const auto left = files->create(folder / "f/a");
    replace_file(*files, folder / "f/b", ByteString("old").bytes());
    replace_file(*files, folder / "f/b", ByteString("new").bytes());
    EXPECT_EQ(contents(folder / "f/b"), "new");
    left->leave();
    EXPECT_TRUE(io::exists(folder / "f/.a.new"));
    for (const char* const name : {"f/a", "f/b", "f/b"}) files->remove(folder / name);
    EXPECT_FALSE(io::exists(folder / "f/b"));
    EXPECT_NE(test::message_of<IoError>([&] { files->make_folder(folder / "g/h"); }).find("No such file"),
              std::string::npos);
  }
}

TEST(FaultyFileSystem, WantsFilesSyncedBeforeTheyArePublished) {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  const auto file = files.create(folder / "a");
  file->write_at(0, ByteString("hello").bytes());
  EXPECT_THROW(file->publish(false), InternalError);
}

}  // namespace
}  // namespace atompack::io
