#include "io/locked_file.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "byte_string.h"
#include "fork.h"
#include "io/temporary_file.h"
#include "io/temporary_folder.h"
#include "message_of.h"

namespace atompack::io {
namespace {

using test::ByteString;
using test::message_of;
using test::TemporaryFile;

std::string unpublished(const std::string& path) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() / ("." + whole.filename().string() + ".new")).string();
}

std::string content(const LockedFile& file) {
  std::array<std::byte, 64> bytes{};
  return std::string(as_text(Bytes(bytes).first(file.read_at(0, bytes))));
}

// A path where nothing stands.
class FreePath {
 public:
  FreePath() : file_(Bytes{}) { std::filesystem::remove(file_.path()); }
  const std::string& path() const { return file_.path(); }

 private:
  TemporaryFile file_;
};

TEST(LockedFile, WritesReadsAndTruncates) {
  const TemporaryFile there(ByteString("hello").bytes());
  LockedFile file = LockedFile::open(there.path());
  file.write_at(4, ByteString("p me").bytes());
  file.sync_data();
  EXPECT_EQ(content(file), "hellp me");
  EXPECT_EQ(file.size(), 8U);
  file.truncate(4);
  file.sync();
  EXPECT_EQ(content(file), "hell");
}

TEST(LockedFile, HasOneWriterAtATime) {
  const TemporaryFile there(ByteString("hello").bytes());
  {
    const LockedFile first = LockedFile::open(there.path());
    EXPECT_EQ(message_of<LockedError>([&] { LockedFile::open(there.path()); }),
              there.path() + ": another writer has this file open");
  }
  LockedFile::open(there.path());
}

TEST(LockedFile, NothingThereIsAnError) {
  const FreePath free;
  EXPECT_EQ(message_of<IoError>([&] { LockedFile::open(free.path()); }), free.path() + ": No such file or directory");
}

TEST(LockedFile, UnpublishedFilesAreHiddenAndGoAway) {
  const FreePath free;
  {
    LockedFile file = LockedFile::create_unpublished(free.path());
    file.write_at(0, ByteString("new").bytes());
    EXPECT_FALSE(std::filesystem::exists(free.path()));
    EXPECT_EQ(file.present_path(), unpublished(free.path()));
    EXPECT_THROW(LockedFile::create_unpublished(free.path()), LockedError);
  }
  EXPECT_FALSE(std::filesystem::exists(unpublished(free.path())));
}

TEST(LockedFile, PublishingGivesTheName) {
  const FreePath free;
  {
    LockedFile file = LockedFile::create_unpublished(free.path());
    file.write_at(0, ByteString("new").bytes());
    file.publish(false);
    EXPECT_EQ(file.present_path(), free.path());
    EXPECT_THROW(LockedFile::open(free.path()), LockedError);  // the lock came along
  }
  EXPECT_EQ(content(LockedFile::open(free.path())), "new");
  EXPECT_FALSE(std::filesystem::exists(unpublished(free.path())));
  std::filesystem::remove(free.path());
}

TEST(LockedFile, PublishingReplacesOnlyWhenAskedTo) {
  const TemporaryFile there(ByteString("old").bytes());
  LockedFile file = LockedFile::create_unpublished(there.path());
  file.write_at(0, ByteString("new").bytes());
  EXPECT_TRUE(message_of<IoError>([&] { file.publish(false); }).ends_with("File exists"));
  const LockedFile old = LockedFile::open(there.path());
  file.publish(true);
  EXPECT_EQ(content(old), "old");
  file.unlock();
  EXPECT_EQ(content(LockedFile::open(there.path())), "new");
}

TEST(LockedFile, WhatADeadWriterLeftIsUsedAgain) {
  const FreePath free;
  EXPECT_TRUE(test::holds_in_child([&] {
    LockedFile file = LockedFile::create_unpublished(free.path());
    file.write_at(0, ByteString("half of it").bytes());
    ::_exit(0);  // without the end of `file`
    return true;
  }));
  EXPECT_TRUE(std::filesystem::exists(unpublished(free.path())));
  {
    const LockedFile file = LockedFile::create_unpublished(free.path());
    EXPECT_EQ(file.size(), 0U);
  }
  EXPECT_FALSE(std::filesystem::exists(unpublished(free.path())));
}

TEST(LockedFile, UnpublishedOnesAreFound) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(unpublished_in(folder.path()).empty());
  const LockedFile first = LockedFile::create_unpublished(folder / "b");
  {
    LockedFile left = LockedFile::create_unpublished(folder / "a.af");
    left.leave();
    LockedFile published = LockedFile::create_unpublished(folder / "c");
    published.publish(false);
  }
  for (const char* const other : {".hidden", "new", "d.new", ".new"}) std::ofstream(folder / other) << "x";
  EXPECT_EQ(unpublished_in(folder.path()), (std::vector<std::string>{"a.af", "b"}));
}

TEST(LockedFile, AForkedChildNeitherUnlocksNorRemoves) {
  const FreePath free;
  auto file = std::make_unique<LockedFile>(LockedFile::create_unpublished(free.path()));
  EXPECT_TRUE(test::holds_in_child([&] {
    file.reset();
    return true;
  }));
  EXPECT_TRUE(std::filesystem::exists(unpublished(free.path())));
  EXPECT_THROW(LockedFile::create_unpublished(free.path()), LockedError);
}

}  // namespace
}  // namespace atompack::io
