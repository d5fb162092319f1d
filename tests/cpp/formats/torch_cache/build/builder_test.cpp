#include "formats/torch_cache/build/builder.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "codec/checksums.h"
#include "formats/torch_cache/entries.h"
#include "formats/torch_cache/reader.h"
#include "io/faulty_file.h"
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

// A crash between the end of an append and the journal: anything may follow the last entry that counts.
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
  Builder builder(folder.file(), header(), "what");  // its entries are followed by all that finish() wrote
  EXPECT_EQ(builder.n_entries(), kTotal);
  builder.finish();
  EXPECT_TRUE(bytes_of(folder.file()) == whole);
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

using test::FaultyFile;
using test::Image;

EntryRecord numbered(int64_t k) {
  EntryRecord record;
  record.address = 4096 + 8 * static_cast<uint64_t>(k);
  record.structure_bytes = static_cast<uint32_t>(100 + k);
  record.n_atoms = static_cast<int32_t>(k);
  record.energy = -0.5 * static_cast<double>(k);
  record.has_forces = k % 2 == 0;
  record.has_derivatives = k % 4 == 0;
  record.n_edges = k * k;
  record.n_triplets = k * k * k;
  record.name = k == 0 ? "" : std::string("n\0ä", 4) + std::to_string(k);
  return record;
}

std::vector<EntryRecord> run(int64_t first, int64_t last) {
  std::vector<EntryRecord> records;
  for (int64_t k = first; k < last; ++k) records.push_back(numbered(k));
  return records;
}

// Entries 0 to the number that is returned, each as it was.
int64_t expect_first(const std::vector<EntryRecord>& found) {
  for (int64_t k = 0; k < std::ssize(found); ++k) {
    std::vector<std::byte> got, want;
    append_record(found[static_cast<size_t>(k)], got);
    append_record(numbered(k), want);
    EXPECT_EQ(got, want) << k;
  }
  return std::ssize(found);
}

Image whole() {
  FaultyFile file;
  Journal journal(file, "what");
  journal.append(run(0, 3));
  journal.append(run(3, 4));
  journal.append(run(4, 9));
  return file.image();
}

TEST(Journal, GoesOnWhereItWasLeft) {
  FaultyFile file(whole());
  {
    Journal journal(file, "what");
    EXPECT_EQ(expect_first(journal.records()), 9);
    journal.append(run(9, 12));
    EXPECT_EQ(expect_first(journal.records()), 12);
  }
  EXPECT_EQ(expect_first(Journal(file, "what").records()), 12);
}

TEST(Journal, OfAnotherBuildIsEmptied) {
  for (const char* other : {"else", "what ", "wha", ""}) {
    FaultyFile file(whole());
    Journal journal(file, other);
    EXPECT_TRUE(journal.records().empty());
    journal.append(run(0, 2));
    EXPECT_EQ(expect_first(Journal(file, other).records()), 2);
    EXPECT_TRUE(Journal(file, "what").records().empty());
  }
}

TEST(Journal, CutAnywhereHoldsWholeSteps) {
  const Image image = whole();
  int64_t before = 0;
  for (size_t size = 0; size <= image.size(); ++size) {
    FaultyFile file(Image(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(size)));
    Journal journal(file, "what");
    const int64_t n = expect_first(journal.records());
    EXPECT_TRUE(n == 0 || n == 3 || n == 4 || n == 9) << n;
    EXPECT_GE(n, before);
    before = n;
    journal.append(run(n, n + 2));
    EXPECT_EQ(expect_first(Journal(file, "what").records()), n + 2);
  }
  EXPECT_EQ(before, 9);
}

TEST(Journal, AChangedByteEndsIt) {
  const Image image = whole();
  for (size_t at = 0; at < image.size(); ++at) {
    for (const int bit : {0, 7}) {
      Image changed = image;
      changed[at] ^= static_cast<std::byte>(1 << bit);
      FaultyFile file(changed);
      EXPECT_LT(expect_first(Journal(file, "what").records()), 9) << at;
    }
  }
}

TEST(Journal, ZerosBehindItAreNoStep) {
  Image image = whole();
  image.resize(image.size() + 5000);
  FaultyFile file(image);
  EXPECT_EQ(expect_first(Journal(file, "what").records()), 9);
  EXPECT_EQ(file.size(), whole().size());
}

// A crash after any part of any write: what was appended before the last sync is present.
TEST(Journal, SurvivesACrashAtAnyMoment) {
  FaultyFile file;
  std::vector<std::pair<size_t, int64_t>> promised{{0, 0}};  // operations done, entries durable by then
  Journal journal(file, "what");
  for (const int64_t end : {2, 3, 7}) {
    journal.append(run(std::ssize(journal.records()), end));
    promised.emplace_back(file.operations().size(), end);
  }
  Image image;
  for (size_t n = 0; n < file.operations().size(); ++n) {
    const test::Operation& next = file.operations()[n];
    for (size_t bytes = 0; bytes <= next.bytes.size(); ++bytes) {
      Image torn = image;
      carry_out(next, bytes, torn);
      FaultyFile after(torn);
      const int64_t found = expect_first(Journal(after, "what").records());
      int64_t least = 0;
      for (const auto& [operations, entries] : promised) least = operations <= n ? entries : least;
      EXPECT_GE(found, least) << n << " " << bytes;
    }
    carry_out(next, image);
  }
}

TEST(Journal, AFullDiskChangesNothing) {
  for (const size_t n_bytes : {0, 1, 40, 1000}) {
    FaultyFile file;
    Journal journal(file, "what");
    journal.append(run(0, 2));
    file.fault = FaultyFile::Fault{file.operations().size(), n_bytes, ENOSPC};
    const std::vector<EntryRecord> more = run(2, 5);
    EXPECT_THROW(journal.append(more), IoError);
    EXPECT_EQ(expect_first(journal.records()), 2);
    file.fault.reset();
    journal.append(more);
    EXPECT_EQ(expect_first(Journal(file, "what").records()), 5);
  }
}

}  // namespace
}  // namespace atompack::torch_cache
