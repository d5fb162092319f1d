#include "formats/torch_cache/reader.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "fixtures.h"
#include "formats/torch_cache/heap_bytes.h"
#include "io/temporary_file.h"
#include "message_of.h"

namespace atompack::torch_cache {
namespace {

using test::TemporaryFile;
using Buffer = std::vector<std::byte>;

std::string fixture(const std::string& name) {
  return (test::fixtures_root() / "torch_cache" / (name + ".h5")).string();
}

Buffer contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const Bytes bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

// Every byte that an entry has, so that a sanitizer sees each view used.
uint64_t sum_of(Bytes bytes) {
  uint64_t sum = 0;
  for (const std::byte byte : bytes) sum += static_cast<uint64_t>(byte);
  return sum;
}

template <typename Action>
void ignoring_damage(const Action& action) {
  try {
    action();
  } catch (const DataError&) {  // what a damaged row is allowed to do
  }
}

uint64_t read_entry(const Cache& cache, int64_t entry) {
  uint64_t sum = 0;
  ignoring_damage([&] { sum += sum_of(cache.structure(entry)); });
  if (cache.has_features()) {
    ignoring_damage([&] {
      const auto row = cache.features(entry);
      if (row) sum += sum_of(row->values.bytes);
    });
  }
  if (cache.has_force_derivatives()) {
    ignoring_damage([&] {
      const auto row = cache.derivatives(entry);
      if (!row) return;
      for (const View& view : row->columns) sum += sum_of(view.bytes);
    });
  }
  return sum;
}

void read_all(const std::string& path) {
  try {
    const Cache cache(path);
    for (int64_t i = 0; i < cache.n_entries(); ++i) read_entry(cache, i);
  } catch (const DataError&) {
  } catch (const IoError&) {
  }
}

TEST(Cache, ViewsLieInTheMappingAndStayTheSame) {
  const Cache cache(fixture("v2_both_f64_two"));
  const auto first = cache.features(0);
  const auto again = cache.features(0);
  ASSERT_TRUE(first && again);
  EXPECT_EQ(first->values.bytes.data(), again->values.bytes.data());
}

TEST(Cache, NothingButTheMappingStaysOpen) {
  const size_t before = test::count_open_descriptors();
  const Cache cache(fixture("v2_both_f64_two"));
  EXPECT_EQ(test::count_open_descriptors(), before + 1);
}

TEST(Cache, AnotherFileAtThePathIsStale) {
  const TemporaryFile file(contents(fixture("v2_both_f64_two")));
  const Cache before(file.path());
  file.replace(contents(fixture("v2_both_f64_two")));
  OpenOptions options;
  options.expected = before.identity();
  try {
    const Cache after(file.path(), options);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.code(), ESTALE);
  }
  before.prepare();  // who has the old one open may keep it
  EXPECT_TRUE(before.features(0));
}

TEST(Cache, AFileThatShrankIsNoticed) {
  const TemporaryFile file(contents(fixture("v2_both_f64_two")));
  const Cache cache(file.path());
  file.resize(4096);
  EXPECT_EQ(test::corrupt([&] { cache.prepare(); }),
            cat(file.path(), ": the file shrank while it was open: expected 81000 bytes, got 4096"));
}

TEST(Cache, DamagedBytesDoNoHarm) {
  for (const char* const name : {"v2_features_f32_two", "legacy_v1_f64_two"}) {
    const Buffer whole = contents(fixture(name));
    for (size_t at = 0; at < whole.size(); at += 97) {
      Buffer changed = whole;
      changed[at] = at % 2 == 0 ? std::byte{0xFF} : changed[at] ^ std::byte{0x10};
      read_all(TemporaryFile(changed).path());
    }
  }
}

// Damage where the rows lie.
TEST(Cache, DamagedHeapsDoNoHarm) {
  const std::string path = fixture("v2_derivatives_f64_two");
  const Buffer whole = contents(path);
  const std::string_view text = as_text(whole);
  for (size_t heap = text.find("GCOL"); heap != std::string_view::npos; heap = text.find("GCOL", heap + 4)) {
    for (size_t at = heap; at < heap + 256; at += 3) {
      for (const std::byte value : {std::byte{0}, std::byte{0x7F}, std::byte{0xFF}}) {
        Buffer changed = whole;
        changed[at] = value;
        const TemporaryFile file(changed);
        read_all(file.path());
      }
    }
  }
}

TEST(Cache, OneCacheServesManyThreads) {
  for (int round = 0; round < 20; ++round) {
    const Cache cache(fixture("v2_both_f64_three"));
    std::vector<uint64_t> sums(3);
    std::vector<std::jthread> threads;
    for (uint64_t& sum : sums) {
      threads.emplace_back([&] {
        for (int64_t i = 0; i < cache.n_entries(); ++i) sum += read_entry(cache, i);
      });
    }
    threads.clear();
    EXPECT_EQ(sums, std::vector<uint64_t>(3, sums[0]));
  }
}

using test::ByteString;
using test::corrupt;
using Rows = std::vector<int64_t>;

TEST(RowsByEntry, TheLastOfSeveralCounts) { EXPECT_EQ(rows_by_entry("s", Rows{0, 1}, Rows{0, 0}, 1), Rows{1}); }

TEST(CheckLength, HoldsTheProductAgainstTheRow) {
  const VlenColumn column("c", DType::float32, test::reference(6, 0, 1).bytes());
  EXPECT_NO_THROW(check_length(column, 0, 2, 3));
  EXPECT_EQ(corrupt([&] { check_length(column, 0, 3, 3); }),
            "row: expected 3 x 3 values as in the index, got 6 (field 'c')");
  for (const int64_t n : {int64_t{-2}, int64_t{1} << 32, INT64_MIN}) {
    EXPECT_THROW(check_length(column, 0, n, -3), CorruptFileError);
    EXPECT_THROW(check_length(column, 0, n, 3), CorruptFileError);
    EXPECT_THROW(check_length(column, 0, 3, n), CorruptFileError);
  }
  // A product that wraps around to the right length.
  EXPECT_THROW(check_length(column, 0, 2, int64_t{3} | INT64_MIN), CorruptFileError);
}

template <typename T>
std::string index_error(DType dtype, std::initializer_list<T> values, int64_t n_atoms) {
  const VlenColumn column("c", dtype, {});
  return corrupt([&] { check_indices(column, ByteString().put_all(values).bytes(), n_atoms); });
}

TEST(CheckIndices, BothWidths) {
  EXPECT_EQ(index_error<int64_t>(DType::int64, {0, 4, 2}, 5), "nothing was thrown");
  EXPECT_EQ(index_error<int32_t>(DType::int32, {0, 4, 2}, 5), "nothing was thrown");
  EXPECT_EQ(index_error<int64_t>(DType::int64, {}, 0), "nothing was thrown");
  EXPECT_EQ(index_error<int64_t>(DType::int64, {0, 5, 9}, 5), "index: expected atoms from 0 to 4, got 5 (field 'c')");
  EXPECT_EQ(index_error<int64_t>(DType::int64, {0, -1}, 5), "index: expected atoms from 0 to 4, got -1 (field 'c')");
  EXPECT_EQ(index_error<int32_t>(DType::int32, {-1}, 5), "index: expected atoms from 0 to 4, got -1 (field 'c')");
  EXPECT_EQ(index_error<int32_t>(DType::int32, {0}, 0), "index: expected atoms from 0 to -1, got 0 (field 'c')");
}

}  // namespace
}  // namespace atompack::torch_cache
