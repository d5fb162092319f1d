#include "formats/torch_cache/build/builder.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "codec/checksums.h"
#include "formats/torch_cache/entries.h"
#include "formats/torch_cache/reader.h"
#include "formats/torch_cache/structure.h"
#include "message_of.h"

namespace atompack::torch_cache {
namespace {

namespace fs = std::filesystem;
using test::Entries;

constexpr std::string_view kJson =
    R"({"ang_cutoff":1.5,"ang_order":0,"descriptor_class":"aenet.torch_featurize.featurize.ChebyshevDescriptor",)"
    R"("min_cutoff":0.55,"multi":true,"rad_cutoff":4.0,"rad_order":1,"species":["O","H"]})";

class Folder {
 public:
  Folder() : path_(testing::TempDir() + "atompack_builder_XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw IoError(errno, "mkdtemp", path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }

  std::string file(const std::string& name = "cache.h5") const { return path_ + "/" + name; }
  std::string payload() const { return file(".cache.h5.new"); }
  std::string journal() const { return file(".cache.h5.journal.new"); }
  size_t n_files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  std::string path_;
};

CacheHeader header(DType storage = DType::float64) {
  CacheHeader made;
  made.features = made.force_derivatives = made.multi = true;
  made.storage = storage;
  made.n_features = 2 * (test::kRadial + test::kAngular);
  made.n_radial = test::kRadial;
  made.n_angular = test::kAngular;
  made.compat_json = kJson;
  made.compat_sha256 = codec::sha256_hex(as_bytes(kJson));
  return made;
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

const std::vector<std::vector<int64_t>> kBatches{{3, 2, 0}, {4}, {1, 1, 5, 2}};
constexpr int64_t kTotal = 8;

void append(Builder& builder, size_t batch) { builder.append(encode_entries(Entries(kBatches[batch]).columns)); }

// A file of all batches, made without a stop.
std::string undisturbed() {
  const Folder folder;
  Builder builder(folder.file(), header(), "what");
  for (size_t batch = 0; batch < kBatches.size(); ++batch) append(builder, batch);
  builder.finish();
  return bytes_of(folder.file());
}

TEST(Builder, WhatItWritesIsRead) {
  const Folder folder;
  {
    Builder builder(folder.file(), header(), "what");
    for (size_t batch = 0; batch < kBatches.size(); ++batch) append(builder, batch);
    EXPECT_EQ(builder.n_entries(), kTotal);
    EXPECT_FALSE(fs::exists(folder.file()));
    builder.finish();
  }
  EXPECT_EQ(folder.n_files(), 1U);
  const Cache cache(folder.file());
  ASSERT_EQ(cache.n_entries(), kTotal);
  EXPECT_EQ(cache.n_features(), test::kFeatures);
  EXPECT_EQ(cache.n_atoms(3), 4);
  EXPECT_FALSE(cache.derivatives(1));
  EXPECT_EQ(cache.derivative_sizes(3)->n_edges, 4);
  EXPECT_EQ(cache.labels(0, 1).front().name, "m0");
  const auto gradients = (*cache.derivatives(3))[Column::radial_dG_drij].bytes;
  EXPECT_EQ(load_le<double>(gradients.data()), 0.3);
  EXPECT_EQ(decode_structure(cache.structure(6)).n_atoms(), 5U);
}

TEST(Builder, OfNoEntries) {
  const Folder folder;
  Builder(folder.file(), header(), "what").finish();
  const Cache cache(folder.file());
  EXPECT_EQ(cache.n_entries(), 0);
  EXPECT_TRUE(cache.has_features() && cache.has_force_derivatives());
}

TEST(Builder, GoesOnFromItsLastCheckpoint) {
  const std::string whole = undisturbed();
  for (size_t stop = 0; stop <= kBatches.size(); ++stop) {
    for (const bool checkpoint : {false, true}) {
      const Folder folder;
      int64_t n = 0;
      {
        Builder builder(folder.file(), header(), "what", checkpoint ? 1 : 1 << 30);
        for (size_t batch = 0; batch < stop; ++batch) append(builder, batch);
        n = checkpoint ? builder.n_entries() : 0;
      }
      EXPECT_FALSE(fs::exists(folder.file()));
      Builder builder(folder.file(), header(), "what");
      EXPECT_EQ(builder.n_entries(), n);
      for (size_t batch = checkpoint ? stop : 0; batch < kBatches.size(); ++batch) append(builder, batch);
      builder.finish();
      EXPECT_TRUE(bytes_of(folder.file()) == whole) << stop;
    }
  }
}

// A crash between the end of an append and the journal: anything may stand behind the last entry that counts.
TEST(Builder, WhatStandsBehindTheJournalIsTakenForNothing) {
  const Folder folder;
  {
    Builder builder(folder.file(), header(), "what");
    append(builder, 0);
    builder.checkpoint();
    append(builder, 1);
  }
  std::ofstream(folder.payload(), std::ios::binary | std::ios::app) << std::string(10000, 'x');
  Builder builder(folder.file(), header(), "what");
  EXPECT_EQ(builder.n_entries(), 3);
  for (const size_t batch : {1, 2}) append(builder, batch);
  builder.finish();
  EXPECT_TRUE(bytes_of(folder.file()) == undisturbed());
}

TEST(Builder, OfSomethingElseStartsAnew) {
  const Folder folder;
  {
    Builder builder(folder.file(), header(), "what");
    append(builder, 2);
    builder.checkpoint();
  }
  Builder builder(folder.file(), header(), "something else");
  EXPECT_EQ(builder.n_entries(), 0);
  append(builder, 0);
  builder.finish();
  EXPECT_EQ(Cache(folder.file()).n_entries(), 3);
}

TEST(Builder, APayloadThatWasCutIsAnError) {
  const Folder folder;
  {
    Builder builder(folder.file(), header(), "what");
    for (const size_t batch : {0, 1}) append(builder, batch);
    builder.checkpoint();
  }
  const uint64_t whole = fs::file_size(folder.payload());
  for (const uint64_t size : {whole - 1, whole - 4090, whole - 4096, uint64_t{4096}, uint64_t{1}}) {
    fs::resize_file(folder.payload(), size);
    const std::string text = test::corrupt([&] { Builder(folder.file(), header(), "what"); });
    EXPECT_EQ(text, cat(folder.payload(), ": expected the entries of its journal, got ", size,
                        " bytes without the last one: delete both to rebuild"));
    EXPECT_EQ(fs::file_size(folder.payload()), size);
  }
  fs::resize_file(folder.payload(), whole);  // zeros where the last entry was
  EXPECT_NE(test::corrupt([&] { Builder(folder.file(), header(), "what"); }), "nothing was thrown");
  fs::remove(folder.payload());  // as it is where a process died just after the file took its name
  Builder builder(folder.file(), header(), "what");
  EXPECT_EQ(builder.n_entries(), 0);
}

TEST(Builder, AnOccupiedNameIsAnErrorAndCanBeTriedAgain) {
  const Folder folder;
  const std::string whole = undisturbed();
  {
    Builder builder(folder.file(), header(), "what");
    for (const size_t batch : {0, 1, 2}) append(builder, batch);
    std::ofstream(folder.file()) << "mine";
    EXPECT_THROW(builder.finish(), IoError);
    EXPECT_EQ(bytes_of(folder.file()), "mine");
  }
  EXPECT_THROW(Builder(folder.file(), header(), "what"), IoError);
  fs::remove(folder.file());
  Builder builder(folder.file(), header(), "what");  // behind its entries stands all that finish() wrote
  EXPECT_EQ(builder.n_entries(), kTotal);
  builder.finish();
  EXPECT_TRUE(bytes_of(folder.file()) == whole);
}

TEST(Builder, OneAtATime) {
  const Folder folder;
  Builder builder(folder.file(), header(), "what");
  append(builder, 0);
  EXPECT_THROW(Builder(folder.file(), header(), "what"), LockedError);
  EXPECT_THROW(Builder(folder.file(), header(), "something else"), LockedError);
  EXPECT_EQ(builder.n_entries(), 3);
  builder.finish();
  EXPECT_EQ(Cache(folder.file()).n_entries(), 3);
}

TEST(Builder, DiscardsAll) {
  const Folder folder;
  {
    Builder builder(folder.file(), header(), "what");
    append(builder, 0);
    builder.checkpoint();
    builder.discard();
  }
  EXPECT_EQ(folder.n_files(), 0U);
}

TEST(Builder, AbsorbsPartsInOrder) {
  const Folder folder;
  for (size_t part = 0; part < kBatches.size(); ++part) {
    Builder builder(folder.file(cat("part", part)), header(), "what");
    append(builder, part);
    builder.checkpoint();
  }
  Builder whole(folder.file(), header(), "what");
  for (size_t part = 0; part < kBatches.size(); ++part) whole.absorb(folder.file(cat("part", part)), "what");
  EXPECT_EQ(whole.n_entries(), kTotal);
  whole.finish();
  EXPECT_TRUE(bytes_of(folder.file()) == undisturbed());
}

TEST(Builder, AbsorbsTheRestOfAPart) {
  const Folder folder;
  {
    Builder builder(folder.file("part"), header(), "what");
    for (size_t batch = 0; batch < kBatches.size(); ++batch) append(builder, batch);
    builder.checkpoint();
  }
  Builder whole(folder.file(), header(), "what");
  append(whole, 0);
  whole.absorb(folder.file("part"), "what", static_cast<size_t>(whole.n_entries()));
  EXPECT_EQ(whole.n_entries(), kTotal);
  whole.finish();
  EXPECT_TRUE(bytes_of(folder.file()) == undisturbed());
}

TEST(Builder, AbsorbsNothingOfAnotherBuild) {
  const Folder folder;
  {
    Builder builder(folder.file("part"), header(), "something else");
    append(builder, 0);
    builder.checkpoint();
  }
  Builder whole(folder.file(), header(), "what");
  whole.absorb(folder.file("part"), "what");
  whole.absorb(folder.file("none"), "what");
  EXPECT_EQ(whole.n_entries(), 0);
}

}  // namespace
}  // namespace atompack::torch_cache
