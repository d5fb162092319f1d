#include "formats/array_file/write/updated_statistics.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "fixtures.h"
#include "formats/array_file/array_model.h"
#include "formats/array_file/layer/layers.h"
#include "formats/array_file/read/statistics.h"
#include "io/temporary_folder.h"

namespace atompack::array_file {
namespace {

using test::numbers;
using test::TemporaryFolder;

// As bytes, for which NaN equals itself.
std::vector<std::byte> encoded(const ArrayStatistics& statistics) { return encode_statistics({{"a", statistics}}); }

// Writes an array again, only those cells that have values.
void write_again(const Reader& reader, const Array& array, Writer& writer) {
  writer.define(definition_of(array));
  DecodedBlock last;
  for (const StoredChunk& chunk : array.chunks) {
    const Box box = array.grid().box_of(array.grid().cell_at(chunk.cell));
    const auto read = [&](const Box& part, auto out) { reader.read(array, part, out, last); };
    test::write(writer, array.name, box, test::read_values(definition_of(array), box, read));
  }
}

TEST(UpdatedStatistics, AreThoseOfTheLibrary) {
  int n_compared = 0;
  for (const auto& path : test::fixture_files(".stats")) {
    const std::string base = path.parent_path() / "data.af";
    SCOPED_TRACE(base);
    const TemporaryFolder folder;
    const Reader reader(base);
    {
      Writer writer(folder / "data.af");
      for (const std::string& name : reader.names()) write_again(reader, reader.array(name), writer);
      writer.flush();
      // It has entries for arrays that were never written only after a compaction.
      if (base.find("compacted") != std::string::npos) writer.compact();
    }
    const Statistics expected = read_statistics(base), made = read_statistics(folder / "data.af");
    for (const std::string& name : reader.names()) {
      ASSERT_EQ(made.contains(name), expected.contains(name)) << name;
      if (!made.contains(name)) continue;
      EXPECT_EQ(encoded(made.at(name)), encoded(expected.at(name))) << name;
      ++n_compared;
    }
  }
  EXPECT_GT(n_compared, 200);
}

class StatisticsOfWriter : public testing::Test {
 protected:
  template <typename T>
  ArrayStatistics of(Type type, std::optional<OwnedFill> fill, const std::vector<T>& values) {
    return of_values({.name = "a", .type = type, .shape = {values.size()}, .fill = std::move(fill)}, numbers(values));
  }
  ArrayStatistics of_values(const ArrayDefinition& array, const test::Values& values) {
    const TemporaryFolder folder;
    Writer writer(folder / "data.af");
    writer.define(array);
    test::write(writer, "a", test::whole_of(array), values);
    writer.flush();
    return read_statistics(folder / "data.af").at("a");
  }
  std::string path() const { return folder_ / "data.af"; }
  TemporaryFolder folder_;
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_F(StatisticsOfWriter, FloatsAreInTotalOrder) {
  const ArrayStatistics zeros = of<double>(Type::float64, std::nullopt, {0.0, -0.0});
  EXPECT_TRUE(std::signbit(std::get<double>(*zeros.min)));
  EXPECT_FALSE(std::signbit(std::get<double>(*zeros.max)));
  const ArrayStatistics nan = of<double>(Type::float64, 1.0, {kInfinity, kNan, -kInfinity, -kNan});
  EXPECT_TRUE(std::isnan(std::get<double>(*nan.min)) && std::signbit(std::get<double>(*nan.min)));
  EXPECT_TRUE(std::isnan(std::get<double>(*nan.max)) && !std::signbit(std::get<double>(*nan.max)));
  EXPECT_EQ(nan.n_null, 0U);
}

TEST_F(StatisticsOfWriter, ValuesEqualToTheFillAreNull) {
  const ArrayStatistics zeros = of<float>(Type::float32, 0.0, {0.F, -0.F, 2.F});
  EXPECT_EQ(zeros.n_null, 2U);
  EXPECT_EQ(std::get<double>(*zeros.min), 2.0);
  EXPECT_EQ((of<float>(Type::float32, 0.1, {0.1F}).n_null), 1U);  // after narrowing
  EXPECT_EQ((of<double>(Type::float64, kNan, {kNan, -kNan, 1.0}).n_null), 2U);
  const ArrayStatistics all = of<uint64_t>(Type::uint64, uint64_t{7}, {7, 7});
  EXPECT_FALSE(all.min || all.max);
  EXPECT_EQ(all.n_rows, 2U);
}

TEST_F(StatisticsOfWriter, IntegersKeepTheirWidth) {
  const ArrayStatistics wide = of<uint64_t>(Type::uint64, std::nullopt, {1, ~uint64_t{0}});
  EXPECT_EQ(std::get<uint64_t>(*wide.min), 1U);
  EXPECT_EQ(std::get<uint64_t>(*wide.max), ~uint64_t{0});
  const ArrayStatistics narrow = of<int8_t>(Type::int8, int64_t{-1}, {-128, 127, -1});
  EXPECT_EQ(std::get<int64_t>(*narrow.min), -128);
  EXPECT_EQ(std::get<int64_t>(*narrow.max), 127);
}

TEST_F(StatisticsOfWriter, TextsCompareAsBytes) {
  const ArrayDefinition array{.name = "a", .type = Type::string, .shape = {4}, .fill = std::string("none")};
  const ArrayStatistics strings = of_values(array, {{}, {"b", "none", "\xC3\xA9", ""}});
  EXPECT_EQ(std::get<std::string>(*strings.min), "");
  EXPECT_EQ(std::get<std::string>(*strings.max), "\xC3\xA9");
  EXPECT_EQ(strings.n_null, 1U);
}

TEST_F(StatisticsOfWriter, CoverOlderLayersAndChangedChunks) {
  Writer writer(path(), {.codec = codec::Codec::none});
  const ArrayDefinition array{.name = "a", .type = Type::int32, .shape = {8}, .chunk_shape = {2}};
  writer.define(array);
  test::write(writer, "a", {{0}, {4}}, numbers<int32_t>({1, 2, 3, 4}));
  writer.flush();
  test::write(writer, "a", {{4}, {2}}, numbers<int32_t>({100, 200}));
  test::write(writer, "a", {{4}, {2}}, numbers<int32_t>({10, 20}));
  test::write(writer, "a", {{0}, {1}}, numbers<int32_t>({5}));
  writer.flush();
  const ArrayStatistics found = read_statistics(path()).at("a");
  EXPECT_EQ(std::get<int64_t>(*found.min), 2);
  EXPECT_EQ(std::get<int64_t>(*found.max), 20);
  EXPECT_EQ(found.n_null, 2U);
  EXPECT_EQ(found.n_rows, 8U);
}

TEST_F(StatisticsOfWriter, OfTwoFlushesCanBeWrittenAtOnce) {
  Writer writer(path());
  writer.define({.name = "a", .type = Type::int32, .shape = {2}, .chunk_shape = {1}});
  for (int32_t i = 0; i < 2; ++i) {
    test::write(writer, "a", {{static_cast<uint64_t>(i)}, {1}}, numbers<int32_t>({i}));
    writer.stage();
    writer.publish();
  }
  writer.write_statistics();
  EXPECT_EQ(std::get<int64_t>(*read_statistics(path()).at("a").max), 1);
}

class RenewedStatistics : public StatisticsOfWriter {
 protected:
  // Layers 1 and 2; the statistics are of layer 1, as a writer leaves them that dies before it writes them again.
  RenewedStatistics() {
    Writer writer(path(), {.codec = codec::Codec::none});
    for (const char* const name : {"a", "b"}) {
      writer.define({.name = name, .type = Type::int32, .shape = {2}, .chunk_shape = {1}});
      test::write(writer, name, {{0}, {1}}, numbers<int32_t>({1}));
    }
    writer.flush();
    test::write(writer, "a", {{1}, {1}}, numbers<int32_t>({7}));
    writer.stage();
    writer.publish();
  }
  void renew(uint32_t number) { renew_statistics(path(), number, kMaxMetadataBytes, io::real_file_system()); }
  int64_t maximum(const std::string& name) const { return std::get<int64_t>(*read_statistics(path()).at(name).max); }
};

TEST_F(RenewedStatistics, OfTheArraysInTheLayerAlone) {
  EXPECT_EQ(maximum("a"), 1);
  StatisticsList list = list_statistics(path());
  list[1].second.max = int64_t{42};  // nobody computes it again
  io::replace_file(io::real_file_system(), statistics_path(path()), encode_statistics(list));
  renew(2);
  EXPECT_EQ(maximum("a"), 7);
  EXPECT_EQ(maximum("b"), 42);
}

TEST_F(RenewedStatistics, OfAllArraysIfTheLayerIsGone) {
  io::real_file_system().remove(statistics_path(path()));
  renew(3);
  EXPECT_EQ(maximum("a"), 7);
  EXPECT_EQ(maximum("b"), 1);
}

TEST_F(RenewedStatistics, AreRemovedIfTheLayersCannotBeRead) {
  std::ofstream(sidecar_path(path(), 2), std::ios::app) << "x";
  renew(2);
  EXPECT_TRUE(read_statistics(path()).empty());
  std::filesystem::remove(path());
  renew(2);
  EXPECT_FALSE(std::filesystem::exists(statistics_path(path())));
}

TEST_F(StatisticsOfWriter, StayOfDeletedArraysUntilACompaction) {
  Writer writer(path());
  for (const char* const name : {"a", "b"}) {
    writer.define({.name = name, .type = Type::int32, .shape = {1}});
    test::write(writer, name, {{0}, {1}}, numbers<int32_t>({1}));
  }
  writer.flush();
  writer.remove("a");
  writer.flush();
  EXPECT_TRUE(read_statistics(path()).contains("a"));
  writer.compact();
  EXPECT_FALSE(read_statistics(path()).contains("a"));
  EXPECT_TRUE(read_statistics(path()).contains("b"));
}

}  // namespace
}  // namespace atompack::array_file
