#include "formats/atlas_store/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <thread>

#include "fixtures.h"
#include "formats/array_file/gathered.h"
#include "formats/atlas_store/scenario.h"
#include "io/temporary_folder.h"
#include "message_of.h"

namespace atompack::atlas_store {
namespace {

namespace fs = std::filesystem;
using array_file::Reader;
using test::gather;
using test::GatheredRow;

std::vector<GatheredRow> scan(const Store& store, uint32_t variable, std::span<const int64_t> datasets,
                              const SliceRequest& request = {}) {
  return gather(*store.slice(variable, datasets, request), true);
}

// The files of one variable without the store above them.
class Alone {
 public:
  Alone(const Store& store, uint32_t variable)
      : metadata_(store.metadata()),
        variable_(variable),
        reader_(read_snapshot(store.path()).variables[variable].layers) {}

  GatheredRow read(int64_t dataset, const SliceRequest& request) const {
    return test::read_alone(reader_.layers(), name_of(dataset), request);
  }
  std::vector<GatheredRow> read(std::span<const int64_t> datasets, const SliceRequest& request) const {
    std::vector<GatheredRow> rows;
    for (const int64_t dataset : datasets) rows.push_back(read(dataset, request));
    return rows;
  }

 private:
  std::string_view name_of(int64_t dataset) const {
    const auto number = static_cast<uint32_t>(dataset);
    return metadata_.schema_number(number, variable_) ? metadata_.dataset_name(number) : std::string_view();
  }

  const Metadata& metadata_;
  uint32_t variable_;
  Reader reader_;
};

class FixtureScans : public testing::TestWithParam<std::string> {
 protected:
  std::vector<int64_t> random_rows(const std::vector<int64_t>& among) {
    std::vector<int64_t> rows(random_() % (among.size() + 3));
    for (int64_t& row : rows) row = among[random_() % among.size()];
    return rows;
  }
  SliceRequest random_request(size_t rank) {
    SliceRequest request{std::vector<uint64_t>(rank), std::vector<uint64_t>(rank)};
    for (uint64_t& start : *request.start) start = random_() % 6;
    for (uint64_t& count : *request.count) count = random_() % 40;
    return request;
  }

  std::minstd_rand random_{3};
};

TEST_P(FixtureScans, EqualEachArrayAlone) {
  const Store store((test::atlas_fixtures() / GetParam()).string());
  std::vector<int64_t> all(static_cast<size_t>(store.size()));
  std::iota(all.begin(), all.end(), 0);
  for (uint32_t variable = 0; variable < store.metadata().n_variables(); ++variable) {
    SCOPED_TRACE(store.metadata().variable_name(variable));
    const Alone alone(store, variable);
    const std::vector<GatheredRow> rows = scan(store, variable, all);
    EXPECT_EQ(rows, alone.read(all, {}));
    std::map<size_t, std::vector<int64_t>> by_rank;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].is_present) by_rank[rows[i].shape.size()].push_back(static_cast<int64_t>(i));
    }
    for (const auto& [rank, among] : by_rank) {
      for (int i = 0; i < 6; ++i) {
        const std::vector<int64_t> some = random_rows(among);
        const SliceRequest request = random_request(rank);
        ASSERT_EQ(scan(store, variable, some, request), alone.read(some, request));
      }
    }
  }
}

std::vector<std::string> fixture_names() {
  std::vector<std::string> names;
  for (const fs::path& store : test::atlas_stores()) names.push_back(store.filename().string());
  std::ranges::sort(names);
  return names;
}

TEST(AtlasStoreFixtures, AreThere) { EXPECT_GE(fixture_names().size(), 18U) << test::atlas_fixtures(); }

INSTANTIATE_TEST_SUITE_P(All, FixtureScans, testing::ValuesIn(fixture_names()),
                         [](const auto& instance) { return instance.param; });

// The only array of a store, or the named error that ends the attempt.
struct Attempt {
  std::optional<GatheredRow> row;
  std::string error;
};

template <typename Read>
Attempt attempt(const Read& read) {
  try {
    return {read(), ""};
  } catch (const DataError& error) {
    return {std::nullopt, error.what()};
  } catch (const IoError& error) {
    return {std::nullopt, error.what()};
  }
}

nlohmann::json shown(const test::Values& values) {
  if (values.numbers.empty()) return values.strings;
  std::vector<int32_t> numbers(values.numbers.size() / sizeof(int32_t));
  store(reinterpret_cast<std::byte*>(numbers.data()), values.numbers);
  return numbers;
}

TEST(AtlasStoreRejects, AreReadAsTheArrayAloneOrRefused) {
  const fs::path folder = test::atlas_fixtures() / "reject";
  const auto verdicts = nlohmann::json::parse(test::contents((folder / "verdicts.json").string()));
  int n_read = 0, n_refused = 0;
  for (const auto& [name, verdict] : verdicts.items()) {
    SCOPED_TRACE(name);
    const int64_t first = 0;
    const auto with_store = [&](const auto& read) {
      return attempt([&, at = (folder / name).string()] {
        const Store store(at);
        const auto variable = store.metadata().find_variable("v");
        if (!variable || store.size() == 0) throw FieldError("no array");
        return read(store, *variable);
      });
    };
    const Attempt scanned =
        with_store([&](const Store& store, uint32_t variable) { return scan(store, variable, {&first, 1})[0]; });
    const Attempt alone =
        with_store([&](const Store& store, uint32_t variable) { return Alone(store, variable).read(first, {}); });
    scanned.row ? ++n_read : ++n_refused;
    EXPECT_NE(scanned.row.has_value(), !scanned.error.empty());
    if (scanned.row) {
      EXPECT_EQ(scanned.row, alone.row);
    }
    if (verdict.at("expect") == "read") {
      ASSERT_TRUE(scanned.row) << scanned.error;
      EXPECT_EQ(shown(scanned.row->values), verdict.at("atlas_0_10_0").at("values"));
    }
  }
  EXPECT_GT(n_read, 20);
  EXPECT_GT(n_refused, 50);
}

class WrittenStore : public testing::Test {
 protected:
  static constexpr int kVariables = 6, kDatasets = 20;

  WrittenStore() {
    Writer writer(path(), Mode::create, {.codec = codec::Codec::lz4, .block_bytes = 200});
    for (int i = 0; i < kDatasets; ++i) {
      const std::string dataset = cat("d", i);
      writer.create_dataset(dataset);
      for (int j = 0; j < kVariables; ++j) {
        if ((i + j) % 5 == 0) continue;
        writer.define_array(dataset, test::numbers(cat("v", j), 7));
        test::put(writer, dataset, cat("v", j), 1, {100 * i + j, 2, 3, 4, i});
      }
    }
    writer.flush();
    rows_.resize(kDatasets);
    std::iota(rows_.begin(), rows_.end(), 0);
  }
  std::string path() const { return folder_ / "store"; }
  // Variables are numbered as they come up first.
  static uint32_t number(const Store& store, const std::string& variable) {
    return *store.metadata().find_variable(variable);
  }
  void write_more() const {
    Writer writer(path(), Mode::append);
    test::put(writer, "d1", "v0", 0, {-5});
    writer.flush();
  }

  test::TemporaryFolder folder_{test::folder_in_memory()};
  std::vector<int64_t> rows_;
};

TEST_F(WrittenStore, StaysAsItWasOpened) {
  const Store store(path());
  const auto before = scan(store, number(store, "v0"), rows_);
  write_more();
  EXPECT_EQ(scan(store, number(store, "v0"), rows_), before);
  const std::string replaced = path() + ": the store was written to since it was opened: open it again";
  EXPECT_EQ(test::message_of<FieldError>([&] { scan(store, number(store, "v1"), rows_); }), replaced);
  EXPECT_EQ(test::message_of<FieldError>([&] { Store again(path(), store.version()); }), replaced);
  const Store now(path());
  EXPECT_NO_THROW(Store(path(), now.version()));
  EXPECT_FALSE(scan(now, number(now, "v0"), rows_) == before);
}

TEST_F(WrittenStore, ACompactionChangesFilesAndNoValues) {
  write_more();
  const Store store(path());
  const auto before = scan(store, number(store, "v0"), rows_);
  Writer(path(), Mode::append).compact();
  EXPECT_EQ(scan(store, number(store, "v0"), rows_), before);
  const Store now(path());
  EXPECT_EQ(scan(now, number(now, "v0"), rows_), before);
}

TEST_F(WrittenStore, TellsWhatAnArrayIs) {
  const Store store(path());
  const uint32_t v0 = number(store, "v0");
  EXPECT_EQ(store.array(v0, 1).shape, std::vector<uint64_t>{7});
  EXPECT_EQ(store.type_of(v0), (ColumnType{ColumnKind::numeric, DType::int32}));
  EXPECT_EQ(test::message_of<FieldError>([&] { store.array(v0, 0); }), path() + ": dataset 'd0': no array 'v0'");
  const std::vector<int64_t> blocks = store.blocks(v0, rows_);
  EXPECT_EQ(blocks[0], -1);  // of a dataset without the array
  EXPECT_EQ(blocks[1], blocks[2]);
  EXPECT_NE(blocks[1], blocks[19]);
  EXPECT_EQ(store.statistics(v0).at("d1").n_rows, 7U);
}

TEST_F(WrittenStore, SaysWhereMetadataAndFileDisagree) {
  const std::string file = path() + "/atlas.json";
  std::string text = test::contents(file);
  const size_t at = text.find('7', text.find("\"shape\""));
  text[at] = '8';
  std::ofstream(file) << text;
  const Store store(path());
  const auto error = [&](int64_t row) { return test::corrupt([&] { scan(store, number(store, "v1"), {&row, 1}); }); };
  EXPECT_EQ(error(0), path() + "/v1/data.af: array: expected int32 (8) as in the metadata, got int32 (7) (field 'd0')");
  EXPECT_EQ(error(1), "nothing was thrown");
}

TEST_F(WrittenStore, AMissingFileIsAnError) {
  const Store store(path());
  fs::remove_all(path() + "/v2");
  EXPECT_THROW(scan(store, number(store, "v2"), rows_), IoError);
  EXPECT_NO_THROW(scan(store, number(store, "v1"), rows_));
}

TEST_F(WrittenStore, ThreadsShareIt) {
  std::vector<std::vector<GatheredRow>> expected;
  const Store first(path());
  for (uint32_t i = 0; i < kVariables; ++i) expected.push_back(scan(first, i, rows_, {{{2}}, {{3}}}));
  for (int round = 0; round < 5; ++round) {
    const Store store(path());  // whose variables are opened by whoever comes first
    std::atomic<int> wrong{0};
    std::vector<std::jthread> threads;
    for (uint32_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (uint32_t i = 0; i < 3 * kVariables; ++i) {
          const uint32_t variable = thread % 2 == 0 ? i % kVariables : kVariables - 1 - i % kVariables;
          wrong += scan(store, variable, rows_, {{{2}}, {{3}}}) == expected[variable] ? 0 : 1;
        }
      });
    }
    threads.clear();
    EXPECT_EQ(wrong, 0);
  }
}

}  // namespace
}  // namespace atompack::atlas_store
