#include "formats/atlas_shards/reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "fixtures.h"
#include "fork.h"
#include "formats/atlas_shards/writer.h"
#include "io/temporary_file.h"
#include "io/temporary_folder.h"
#include "message_of.h"

namespace atompack::atlas_shards {
namespace {

namespace fs = std::filesystem;
using test::contents;

std::string fixture(const std::string& name) {
  return (test::fixtures_root() / "atlas_shards" / "data" / name).string();
}

void save(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// A copy of a fixture that tests may change.
class Copy {
 public:
  explicit Copy(const std::string& name) { fs::copy(fixture(name), root(), fs::copy_options::recursive); }

  fs::path root() const { return folder_ / "set"; }

 private:
  test::TemporaryFolder folder_;
};

// Reads every example; the memory of all blocks.
uint64_t read_all(const Reader& reader) {
  uint64_t bytes = 0;
  for (uint64_t shard = 0; shard < reader.shards().size(); ++shard) {
    const ShardMeta& meta = reader.shards()[shard].meta;
    for (uint64_t number = 0; number < meta.n_blocks(); ++number) {
      const auto block = reader.block(shard, number);
      EXPECT_GE(block->examples().size(), meta.examples_in(number));
      bytes += block->bytes();
    }
  }
  return bytes;
}

template <typename Action>
std::string missing(const Action& action) {
  try {
    action();
  } catch (const IoError& error) {
    return error.code() == ENOENT ? fs::path(error.path()).filename().string() : error.what();
  }
  return "nothing was thrown";
}

TEST(AtlasShardsReader, PlacesOfExamples) {
  const Reader reader(fixture("shard_size_zero"));  // the first shard is empty
  const Place first = reader.locate(0), last = reader.locate(2);
  EXPECT_EQ(first.shard, 1u);
  EXPECT_EQ(last.shard, 3u);
  const Reader atoms(fixture("s2_atoms"));
  for (uint64_t example = 0; example < atoms.size(); ++example) {
    const Place place = atoms.locate(example);
    const Shard& shard = atoms.shards()[place.shard];
    EXPECT_EQ(shard.first_example + place.block * shard.meta.block_size + place.position, example);
    EXPECT_LT(place.position, shard.meta.examples_in(place.block));
  }
}

TEST(AtlasShardsReader, NumbersOutOfRange) {
  const Reader reader(fixture("s1_atoms")), empty(fixture("empty_s2"));
  EXPECT_THROW(reader.locate(60), std::out_of_range);
  EXPECT_THROW(reader.locate(UINT64_MAX), std::out_of_range);
  EXPECT_THROW(empty.locate(0), std::out_of_range);
  EXPECT_THROW(reader.block(3, 0), std::out_of_range);
  EXPECT_THROW(reader.block(0, reader.shards()[0].meta.n_blocks()), std::out_of_range);
  EXPECT_THROW(empty.block(0, 0), std::out_of_range);
}

TEST(AtlasShardsReader, FoldersThatAreShards) {
  const Copy copy("s1_atoms");
  fs::create_directory(copy.root() / ".cache");
  fs::create_directory(copy.root() / "notes");
  save(copy.root() / "9", "a file");
  EXPECT_EQ(Reader(copy.root().string()).size(), 60u);
  fs::copy(copy.root() / "2", copy.root() / "extra", fs::copy_options::recursive);
  EXPECT_EQ(Reader(copy.root().string()).size(), 70u) << "upstream takes any name";
  fs::create_directory(copy.root() / "77");
  EXPECT_EQ(missing([&] { Reader reader(copy.root().string()); }), "meta.json");
}

TEST(AtlasShardsReader, WhatIsMissing) {
  EXPECT_EQ(missing([] { Reader reader("/nowhere/at/all"); }), "meta.json");
  const Copy own("s3_atoms"), shared("s2_atoms");
  fs::remove(own.root() / "0" / "zstd_dict.bin");
  const Reader reader(own.root().string());
  EXPECT_EQ(missing([&] { reader.block(0, 0); }), "zstd_dict.bin");
  reader.block(1, 0);
  fs::remove(shared.root() / "zstd_dict.bin");
  EXPECT_EQ(missing([&] { Reader without(shared.root().string()); }), "zstd_dict.bin");
}

TEST(AtlasShardsReader, BlocksAreKept) {
  const Reader reader(fixture("s1_atoms"));
  EXPECT_EQ(reader.block(0, 1), reader.block(0, 1));
  const Reader forgetful(fixture("s1_atoms"), {.cache_bytes = 0});
  const auto first = forgetful.block(0, 1), again = forgetful.block(0, 1);
  EXPECT_NE(first, again);
  EXPECT_EQ(first->bytes(), again->bytes());
  EXPECT_EQ(read_all(reader), read_all(forgetful));
}

TEST(AtlasShardsReader, DescriptorsAreLimited) {
  const size_t before = test::count_open_descriptors();
  const Reader reader(fixture("shards_12"), {.cache_bytes = 0, .max_open_shards = 2});
  EXPECT_EQ(test::count_open_descriptors(), before);
  read_all(reader);
  EXPECT_EQ(test::count_open_descriptors(), before + 2);
  const Reader none(fixture("shards_12"), {.max_open_shards = 0});
  read_all(none);
  EXPECT_EQ(test::count_open_descriptors(), before + 3);
}

TEST(AtlasShardsReader, LimitOfBlocks) {
  const Reader bare(fixture("index_u32"), {.max_block_bytes = 100});
  EXPECT_TRUE(test::corrupt([&] { read_all(bare); }).find("expected at most 100 bytes, got") != std::string::npos);
  const Reader packed(fixture("s1_atoms"), {.max_block_bytes = 1000});
  EXPECT_TRUE(test::corrupt([&] { read_all(packed); }).find("expected at most 1000 bytes, got") != std::string::npos);
}

TEST(AtlasShardsReader, MessagesSayWhere) {
  const Reader reader(fixture("bad_short_block"));
  const std::string message = test::corrupt([&] { read_all(reader); });
  EXPECT_NE(message.find("data.bin: block: expected 4 examples, got 1 (offset 0 of block 1"), std::string::npos)
      << message;
  const Reader torn(fixture("bad_no_content_size"));
  const std::string size = test::corrupt([&] { read_all(torn); });
  EXPECT_NE(size.find("data.bin: zstd content size: expected one, got none (offset 0, in block 0)"), std::string::npos)
      << size;
}

TEST(AtlasShardsReader, ManyThreads) {
  const Reader reader(fixture("s3_atoms"), {.cache_bytes = 4096, .max_open_shards = 1});
  const uint64_t expected = read_all(reader);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) wrong += read_all(reader) != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// At each fork another thread is about to take the lock of what is kept, holds it, or just gave it back. It allocates
// nothing: the allocator of a sanitizer, unlike that of the C library, stays locked in a fork.
TEST(AtlasShardsReader, Forks) {
  const Reader reader(fixture("s2_atoms"));
  const uint64_t expected = read_all(reader);  // all of it is kept now
  std::atomic<bool> begun = false, done = false;
  std::thread busy([&] {
    while (!done) begun = reader.block(0, 0) != nullptr;
  });
  while (!begun) std::this_thread::yield();
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(test::holds_in_child([&] { return read_all(reader) == expected; }));
  }
  done = true;
  busy.join();
}

// Either all is read, or a named error says what is wrong.
void expect_named_end(const fs::path& root, const std::string& what) {
  try {
    read_all(Reader(root.string()));
  } catch (const DataError& error) {
    EXPECT_TRUE(std::string_view(error.what()).starts_with(root.string())) << what << ": " << error.what();
  } catch (const IoError& error) {
    EXPECT_EQ(error.code(), ENOENT) << what << ": " << error.what();
  }
}

class DamagedShards : public testing::TestWithParam<const char*> {};

TEST_P(DamagedShards, CutAnywhere) {
  const Copy copy(GetParam());
  for (const char* file : {"0/index.npy", "0/data.bin", "0/meta.json", "meta.json"}) {
    const std::string whole = contents(copy.root() / file);
    for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 64) {
      save(copy.root() / file, whole.substr(0, size));
      EXPECT_THROW(read_all(Reader(copy.root().string())), DataError) << file << " of " << size;
      expect_named_end(copy.root(), file);
    }
    save(copy.root() / file, whole);
  }
}

TEST_P(DamagedShards, FlippedBits) {
  const Copy copy(GetParam());
  for (const char* file :
       {"0/index.npy", "0/data.bin", "0/meta.json", "meta.json", "0/zstd_dict.bin", "zstd_dict.bin"}) {
    if (!fs::exists(copy.root() / file)) continue;
    std::string bytes = contents(copy.root() / file);
    for (size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 200) {
      const char was = bytes[at];
      bytes[at] = static_cast<char>(was ^ (1 << at % 8));
      save(copy.root() / file, bytes);
      expect_named_end(copy.root(), cat(file, " at ", at));
      bytes[at] = was;
    }
    save(copy.root() / file, bytes);
  }
  EXPECT_GT(read_all(Reader(copy.root().string())), 0u) << "the copy is whole again";
}

// A file that shrinks after its index was checked.
TEST_P(DamagedShards, ShrinksWhileItIsOpen) {
  const Copy copy(GetParam());
  const Reader reader(copy.root().string(), {.cache_bytes = 0});
  read_all(reader);
  fs::resize_file(copy.root() / "0" / "data.bin", 3);
  EXPECT_NE(test::corrupt([&] { read_all(reader); }).find("data.bin: block 0: expected "), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, DamagedShards, testing::Values("s0_mixed", "s2_late_short", "s3_seven"));

TEST(ShardSource, ExamplesInTheOrderThatWasAskedFor) {
  const test::TemporaryFolder parent;
  const std::string root = parent.path() + "/set";
  Writer writer(root, {.shard_size = 5, .block_size = 2, .strategy = Strategy::zstd});
  for (int i = 0; i < 12; ++i) {
    writer.begin_example().integer(i);
    writer.end_example();
  }
  writer.close();
  for (const uint64_t cache_blocks : {0, 1, 100}) {
    const ShardSource source(std::make_shared<Reader>(root, ReaderOptions{.cache_blocks = cache_blocks}));
    EXPECT_EQ(source.size(), 12);
    const std::vector<int64_t> numbers{11, 0, 5, 4, 5, 1, 0};
    const Examples examples = source.read(numbers);
    ASSERT_EQ(examples.values.size(), numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(examples.values[i].integer(), numbers[i]);
    EXPECT_EQ(examples.owners.size(), 4u) << "each block is held once";
  }
}

}  // namespace
}  // namespace atompack::atlas_shards
