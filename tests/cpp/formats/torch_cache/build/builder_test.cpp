#include "formats/torch_cache/build/builder.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "io/faulty_file.h"

namespace atompack::torch_cache {
namespace {

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
