#include "io/fetch/paged_store.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>

#include "io/fetch/fake_reader.h"
#include "io/temporary_folder.h"
#include "message_of.h"

namespace atompack::io::fetch {
namespace {

using test::BusyReader;
using test::HeldReader;
using test::io_error;
using test::message_of;
using test::random_bytes;

const std::string kObjectUrl = "s3://bucket/key";

// Objects in memory, which the test may replace.
class FakeStore final : public ObjectStore {
 public:
  struct Object {
    ObjectVersion version;
    std::vector<std::byte> bytes;
    std::shared_ptr<const RangeReader> reader;
  };

  void put(const std::string& url, std::vector<std::byte> bytes, std::string etag, std::string modified = "",
           std::shared_ptr<const RangeReader> reader = nullptr) {
    if (!reader) reader = std::make_shared<const BusyReader>(bytes);
    const ObjectVersion version{bytes.size(), std::move(etag), std::move(modified)};
    objects_[url] = {version, std::move(bytes), std::move(reader)};
  }

  OpenObject open(const std::string& url, size_t n_first) const override {
    if (refusal_ != 0) throw IoError(refusal_, "refused", url);
    const auto found = objects_.find(url);
    if (found == objects_.end()) throw IoError(ENOENT, "no such object", url);
    const auto& [version, bytes, reader] = found->second;
    const Bytes first = Bytes(bytes).first(std::min(n_first, bytes.size()));
    return {version, {first.begin(), first.end()}, reader};
  }

  void refuse(int code) { refusal_ = code; }

 private:
  std::map<std::string, Object> objects_;
  int refusal_ = 0;
};

class PagedStoreTest : public testing::Test {
 protected:
  static std::vector<std::byte> read(const OpenFile& file, uint64_t offset, uint64_t n) {
    std::vector<std::byte> into(n);
    into.resize(file.read_at(offset, into));
    return into;
  }
  static std::vector<std::byte> part(const std::vector<std::byte>& bytes, uint64_t offset, uint64_t n) {
    const Bytes found = Bytes(bytes).subspan(offset, n);
    return {found.begin(), found.end()};
  }

  std::shared_ptr<FakeStore> objects_ = std::make_shared<FakeStore>();
  PagedStore store_{objects_, 100 * kPageBytes, nullptr,
                    [](const std::string& url) { return std::vector<std::string>{url + "/a"}; }};
};

TEST_F(PagedStoreTest, FilesHaveTheBytesOfTheirObjects) {
  const auto bytes = random_bytes(300'000);
  objects_->put(kObjectUrl, bytes, "\"1\"");
  const auto file = store_.open(kObjectUrl);
  EXPECT_EQ(file->path(), kObjectUrl);
  EXPECT_EQ(file->size(), 300'000U);
  EXPECT_EQ(read(*file, 0, 300'000), bytes);
  EXPECT_EQ(read(*file, 299'990, 100), part(bytes, 299'990, 10));
  EXPECT_TRUE(read(*file, 300'000, 1).empty());
  EXPECT_TRUE(read(*file, UINT64_MAX, 1).empty());
  EXPECT_EQ(read_whole(*file, 300'000), bytes);
  EXPECT_EQ(store_.names_in("s3://bucket"), std::vector<std::string>{"s3://bucket/a"});
}

TEST_F(PagedStoreTest, TheBeginningComesWithOpening) {
  const auto reader = std::make_shared<const HeldReader>(random_bytes(100'000));
  objects_->put(kObjectUrl, reader->object(), "\"1\"", "", reader);
  const auto file = store_.open(kObjectUrl);
  EXPECT_EQ(read(*file, 10, 60'000), part(reader->object(), 10, 60'000));
  EXPECT_EQ(reader->n_requests(), 0U);
  EXPECT_EQ(store_.stats().requests, 0U);
}

TEST_F(PagedStoreTest, SourcesReadAndAnnounceRanges) {
  const auto reader = std::make_shared<const HeldReader>(random_bytes(1'000'000));
  objects_->put(kObjectUrl, reader->object(), "\"1\"", "", reader);
  const auto file = store_.open(kObjectUrl);
  for (const Access access : {Access::automatic, Access::random, Access::sequential, Access::read}) {
    const auto source = file->bytes(900'000, access);
    EXPECT_EQ(source->length(), 900'000U);
    EXPECT_FALSE(source->is_mapped());
    EXPECT_EQ(source->window(), 24);  // three times what is in flight
    source->check_not_shrunk();
    RangeBuffer buffer;
    const Bytes got = source->bytes(1000, 5000, buffer);
    EXPECT_TRUE(std::ranges::equal(got, part(reader->object(), 1000, 5000)));
  }
  file->bytes(900'000, Access::automatic)->announce(std::array{ByteRange{500'000, 10}});
  ASSERT_EQ(reader->n_requests(), 1U);
  EXPECT_EQ(reader->ranges()[0].offset, 500'000 / kPageBytes * kPageBytes);
  file->bytes(900'000, Access::automatic, true);  // populate
  EXPECT_GT(reader->n_requests(), 1U);
  reader->answer_all();
}

TEST_F(PagedStoreTest, TheWindowFitsIntoTheMemory) {
  objects_->put(kObjectUrl, random_bytes(10), "\"1\"");
  EXPECT_EQ(PagedStore(objects_, 40 * kPageBytes, nullptr, nullptr).open(kObjectUrl)->window(), 10);
  EXPECT_EQ(PagedStore(objects_, 1, nullptr, nullptr).open(kObjectUrl)->window(), 2);
}

TEST_F(PagedStoreTest, AnObjectMayBeEmpty) {
  objects_->put(kObjectUrl, {}, "\"1\"");
  const auto file = store_.open(kObjectUrl);
  EXPECT_EQ(file->size(), 0U);
  EXPECT_TRUE(read(*file, 0, 10).empty());
  EXPECT_EQ(file->bytes(0, Access::automatic, true)->length(), 0U);
  EXPECT_TRUE(read_whole(*file, 0).empty());
}

TEST_F(PagedStoreTest, TheVersionFollowsTheTagOrTheDate) {
  const auto id = [](uint64_t size, const std::string& etag, const std::string& modified) {
    return version_of(ObjectVersion{size, etag, modified});
  };
  EXPECT_EQ(id(5, "\"1\"", "Mon"), id(5, "\"1\"", "Tue"));  // servers of one store may disagree about the date
  EXPECT_NE(id(5, "\"1\"", "Mon"), id(5, "\"2\"", "Mon"));
  EXPECT_NE(id(5, "\"1\"", "Mon"), id(6, "\"1\"", "Mon"));
  EXPECT_EQ(id(5, "", "Mon"), id(5, "", "Mon"));
  EXPECT_NE(id(5, "", "Mon"), id(5, "", "Tue"));
  EXPECT_NE(id(5, "", "Mon"), id(5, "Mon", ""));
  const FileVersion some = id(5, "\"1\"", ""), other = id(5, "\"2\"", "");
  EXPECT_NE(some.device, other.device);
  EXPECT_NE(some.inode, other.inode);
  EXPECT_EQ(some.size, 5U);

  objects_->put(kObjectUrl, random_bytes(5), "\"1\"");
  EXPECT_EQ(store_.version_of(kObjectUrl), some);
  EXPECT_EQ(store_.open(kObjectUrl)->version(), some);
}

TEST_F(PagedStoreTest, AMissingObjectHasNoVersion) {
  EXPECT_EQ(store_.version_of(kObjectUrl), std::nullopt);
  EXPECT_EQ(message_of<IoError>([&] { store_.open(kObjectUrl); }), "s3://bucket/key: no such object");
  objects_->refuse(EACCES);
  EXPECT_EQ(message_of<IoError>([&] { store_.version_of(kObjectUrl); }), "s3://bucket/key: refused");
}

TEST_F(PagedStoreTest, ReopeningFindsThePages) {
  objects_->put(kObjectUrl, random_bytes(300'000), "\"1\"");
  const auto first = read(*store_.open(kObjectUrl), 0, 300'000);
  const uint64_t n = store_.stats().requests;
  EXPECT_GT(n, 0U);
  EXPECT_EQ(read(*store_.open(kObjectUrl), 0, 300'000), first);
  EXPECT_EQ(store_.stats().requests, n);
}

TEST_F(PagedStoreTest, ReopeningReadsThroughTheNewReader) {
  const auto old = std::make_shared<const HeldReader>(random_bytes(300'000));
  objects_->put(kObjectUrl, old->object(), "\"1\"", "", old);
  store_.open(kObjectUrl);
  objects_->put(kObjectUrl, old->object(), "\"1\"");  // its credentials may be newer
  EXPECT_EQ(read(*store_.open(kObjectUrl), 0, 300'000), old->object());
  EXPECT_EQ(old->n_requests(), 0U);
}

TEST_F(PagedStoreTest, AnotherVersionHasPagesOfItsOwn) {
  const auto old = random_bytes(300'000, 1), fresh = random_bytes(300'000, 2);
  objects_->put(kObjectUrl, old, "\"1\"");
  const auto before = store_.open(kObjectUrl);
  EXPECT_EQ(read(*before, 0, 300'000), old);
  objects_->put(kObjectUrl, fresh, "\"2\"");
  EXPECT_EQ(read(*store_.open(kObjectUrl), 0, 300'000), fresh);
  EXPECT_EQ(read(*before, 0, 300'000), old);
  EXPECT_NE(store_.open(kObjectUrl)->version(), before->version());
}

// A server that says nothing by which a change could be noticed.
TEST_F(PagedStoreTest, ReopeningWithoutAVersionReadsAgain) {
  for (const std::string etag : {"", "W/\"1\""}) {
    const auto old = random_bytes(300'000, 1), fresh = random_bytes(300'000, 2);
    objects_->put(kObjectUrl, old, etag);
    EXPECT_EQ(read(*store_.open(kObjectUrl), 0, 300'000), old);
    objects_->put(kObjectUrl, fresh, etag);
    EXPECT_EQ(read(*store_.open(kObjectUrl), 0, 300'000), fresh);
  }
}

TEST_F(PagedStoreTest, AReplacedObjectIsStale) {
  const auto reader = std::make_shared<const HeldReader>(random_bytes(300'000));
  objects_->put(kObjectUrl, reader->object(), "\"1\"", "", reader);
  const auto file = store_.open(kObjectUrl);
  std::thread server([&] {
    reader->wait_for(1);
    reader->answer(0, io_error(ESTALE));
    reader->wait_for(2);
    reader->answer(1, io_error(EIO));
  });
  try {
    read(*file, 200'000, 1);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const IoError& error) {
    EXPECT_EQ(error.code(), ESTALE);
    EXPECT_STREQ(error.what(),
                 "s3://bucket/key: the file was replaced since it was opened; refresh() opens the new one");
  }
  EXPECT_EQ(message_of<IoError>([&] { read(*file, 200'000, 1); }), "s3://b/k: the server");
  server.join();
}

TEST_F(PagedStoreTest, PagesOnDiskServeTheNextStore) {
  const test::TemporaryFolder folder;
  const auto bytes = random_bytes(300'000);
  objects_->put(kObjectUrl, bytes, "\"1\"");
  for (const bool is_first : {true, false}) {
    const auto disk = std::make_shared<const BlockCache>(folder.path(), 1 << 30);
    const PagedStore store(objects_, 100 * kPageBytes, disk, nullptr);
    EXPECT_EQ(read(*store.open(kObjectUrl), 0, 300'000), bytes);
    EXPECT_EQ(store.stats().requests > 0, is_first);
    ASSERT_TRUE(store.disk_stats().has_value());
    EXPECT_EQ(store.disk_stats()->written, is_first ? 74U : 0U);
  }
  EXPECT_FALSE(store_.disk_stats().has_value());
}

TEST_F(PagedStoreTest, FindsAddressesOfFiles) {
  const std::string secret_url = "https://h/a?sig=SECRET";
  const auto bytes = random_bytes(20 * kPageBytes);
  const test::TemporaryFolder folder;
  const auto disk = std::make_shared<const BlockCache>(folder.path(), 100 << 20);
  const auto open = [&](const std::string& address) {
    const auto find = [&](const std::string& url) {
      return ObjectAddress{url == "https://h/a" ? address : url, "name"};
    };
    const PagedStore store(objects_, 100 * kPageBytes, disk, nullptr, find);
    const auto file = store.open("https://h/a");
    EXPECT_EQ(file->path(), "https://h/a");
    EXPECT_TRUE(store.version_of("https://h/a"));
    EXPECT_EQ(read(*file, 0, bytes.size()), bytes);
    return store.stats().fetched_bytes;
  };
  objects_->put(secret_url, bytes, "\"1\"");
  EXPECT_GT(open(secret_url), 0U);
  // The same file at another address is known by its name.
  objects_->put("https://other/b", bytes, "\"1\"");
  EXPECT_EQ(open("https://other/b"), 0U);
}

}  // namespace
}  // namespace atompack::io::fetch
