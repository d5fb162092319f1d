#include "formats/array_file/read/column_slice.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <random>
#include <vector>

#include "formats/array_file/archive_bytes.h"
#include "formats/array_file/array_model.h"
#include "formats/array_file/gathered.h"
#include "io/fake_store.h"
#include "io/temporary_folder.h"
#include "message_of.h"

namespace atompack::array_file {
namespace {

using test::ByteString;
using test::gather;
using test::GatheredRow;
using test::MadeArray;
using test::MadeLayer;

// Layers with everything that stands on them.
class Made {
 public:
  explicit Made(std::vector<MadeLayer> made) : made_(std::move(made)), layers_(parsed()) {}
  Made(const Made&) = delete;

  const Layers& layers() const { return layers_; }
  Slice slice(const std::vector<std::string_view>& names, const SliceRequest& request = {}) {
    std::vector<int64_t> rows;
    for (size_t i = 0; i < names.size(); ++i) rows.push_back(static_cast<int64_t>(i));
    return Slice(std::make_shared<const Column>(layers_, names), rows, request, cache_);
  }
  std::vector<int32_t> read(const SliceRequest& request) {
    const auto rows = gather(slice({"a"}, request), false);
    std::vector<int32_t> values(rows[0].values.numbers.size() / 4);
    store(reinterpret_cast<std::byte*>(values.data()), rows[0].values.numbers);
    return values;
  }
  // That of a slice of one array, which is also what reading it alone says.
  std::string error(std::string_view name = "a") {
    const std::string found = test::data_error([&] { gather(slice({name}), false); });
    EXPECT_EQ(found, test::data_error([&] { test::read_alone(layers_, name, {}); }));
    return found;
  }

 private:
  Layers parsed() const {
    std::vector<Layer> layers;
    for (const MadeLayer& layer : made_) {
      layers.emplace_back(std::make_shared<io::MemoryBytes>(layer.file().bytes(), cat("layer ", layers.size())));
    }
    return Layers(std::move(layers));
  }

  std::vector<MadeLayer> made_;
  Layers layers_;
  BlockCache cache_{1 << 20};
};

ByteString count_to(int32_t n) {
  ByteString bytes;
  for (int32_t i = 0; i < n; ++i) bytes.put(i);
  return bytes;
}

MadeArray four(std::vector<test::MadeChunk> chunks = {{{0}, 0, 8}, {{1}, 8, 8}}) {
  return {.shape = {4}, .chunk_shape = {2}, .chunks = std::move(chunks)};
}

using Ints = std::vector<int32_t>;

TEST(ColumnSlice, IsClampedToTheArray) {
  Made made({{count_to(4), {four()}}});
  EXPECT_EQ(made.read({}), (Ints{0, 1, 2, 3}));
  EXPECT_EQ(made.read({{{1}}, {{2}}}), (Ints{1, 2}));
  EXPECT_EQ(made.read({{{3}}, std::nullopt}), (Ints{3}));
  EXPECT_EQ(made.read({std::nullopt, {{~uint64_t{0}}}}), (Ints{0, 1, 2, 3}));
  EXPECT_EQ(made.read({{{~uint64_t{0}}}, {{~uint64_t{0}}}}), Ints{});
  EXPECT_EQ(made.slice({"a"}, {{{9}}, {}}).shape(0)[0], 0U);
}

TEST(ColumnSlice, WantsAsManyAxesAsTheArrayHas) {
  Made made({{count_to(4), {four()}}});
  const auto error = [&](const SliceRequest& request) {
    return test::message_of<FieldError>([&] { made.slice({"a"}, request); });
  };
  EXPECT_EQ(error({{{0, 0}}, {}}), "layer 0: axes of the slice: expected 1, got 2 (field 'a')");
  EXPECT_EQ(error({{}, std::vector<std::uint64_t>()}), "layer 0: axes of the slice: expected 1, got 0 (field 'a')");
}

TEST(ColumnSlice, ChunksMayLieInAnyOrder) {
  Made made({{count_to(4), {four({{{1}, 0, 8}, {{0}, 8, 8}, {{0}, 0, 8}, {{5}, 0, 8}})}}});
  EXPECT_EQ(made.read({}), (Ints{2, 3, 0, 1}));
  EXPECT_EQ(made.read({{{1}}, {{2}}}), (Ints{3, 0}));
  Made twice({{count_to(4), {four({{{0}, 0, 8}, {{0}, 8, 8}, {{1}, 8, 8}})}}});
  EXPECT_EQ(twice.read({}), (Ints{0, 1, 2, 3}));
}

TEST(ColumnSlice, CellsWithoutChunkHoldTheFillValue) {
  MadeArray array = four({{{1}, 0, 8}});
  array.fill = -7;
  Made made({{count_to(2), {array}}});
  EXPECT_EQ(made.read({}), (Ints{-7, -7, 0, 1}));
  EXPECT_EQ(made.read({{}, {{2}}}), (Ints{-7, -7}));
}

TEST(ColumnSlice, OfAGridOfManyCellsLooksAtItsFewChunks) {
  const MadeArray array{
      .shape = {0xFFFFFFFF}, .chunk_shape = {2}, .chunks = {{{7}, 0, 8}, {{0x7FFFFFFF}, 8, 4}}, .fill = 5};
  Made made({{count_to(3), {array}}});
  EXPECT_EQ(made.read({{{13}}, {{4}}}), (Ints{5, 0, 1, 5}));
  EXPECT_EQ(made.read({{{0xFFFFFFFD}}, {}}), (Ints{5, 2}));
  std::vector<int32_t> values = made.read({{}, {{1 << 20}}});
  EXPECT_EQ(values[14], 0);
  EXPECT_EQ(std::ranges::count(values, 5), (1 << 20) - 2);
}

TEST(ColumnSlice, ForeignChunksAreNotTaken) {
  const MadeArray longer{.shape = {6}, .chunk_shape = {2}, .chunks = {{{0}, 0, 8}}};
  Made made({{count_to(4), {four()}}, {count_to(2), {longer}}});
  EXPECT_EQ(made.read({{}, {{2}}}), (Ints{0, 1}));
  EXPECT_EQ(made.error(),
            "layer 0: cells without a chunk: expected the fill value, got older chunks of another type, shape or chunk "
            "shape (field 'a')");
}

TEST(ColumnSlice, TextsAreMadeWellFormed) {
  ByteString chunk = ByteString().put_all<uint32_t>({0, 2, 5}).append(ByteString{'o', 'k', 0xFF, 0xE2, 0x82});
  for (const uint8_t type : {uint8_t{11}, uint8_t{12}}) {
    const MadeArray array{.type = type, .shape = {2}, .chunk_shape = {2}, .chunks = {{{0}, 0, 17}}};
    Made made({{chunk, {array}}});
    const std::vector<GatheredRow> rows = gather(made.slice({"a"}), false);
    EXPECT_EQ(rows[0], test::read_alone(made.layers(), "a", {}));
    EXPECT_EQ(rows[0].values.strings[1], type == 11 ? "\xEF\xBF\xBD\xEF\xBF\xBD" : "\xFF\xE2\x82");
  }
}

TEST(ColumnSlice, RefusesChunksThatContradictTheArray) {
  const auto error = [](const MadeArray& array, int32_t n = 4) { return Made({{count_to(n), {array}}}).error(); };
  EXPECT_EQ(error(four({{{0}, 0, 4}})), "layer 0: chunk bytes: expected 8, got 4 (field 'a')");
  EXPECT_EQ(error(four({{{0}, 12, 8}})),
            "layer 0: chunk: expected 8 bytes at 12 of block 0, got a block of 16 (field 'a')");
  EXPECT_EQ(error(four({{{0}, 0xFFFFFFFF, 8}})),
            "layer 0: chunk: expected 8 bytes at 4294967295 of block 0, got a block of 16 (field 'a')");
  const MadeArray strings{.type = 11, .shape = {0xFFFFFFFF}, .chunk_shape = {0xFFFFFFFF}, .chunks = {{{0}, 0, 16}}};
  EXPECT_EQ(test::corrupt([&] { Made({{count_to(4), {strings}}}).slice({"a"}); }),
            "layer 0: string offsets: expected more than 4294967295, got 4 (field 'a')");
  EXPECT_EQ(error({.type = 11, .shape = {3}, .chunk_shape = {3}, .chunks = {{{0}, 0, 16}}}),
            "layer 0: last string offset: expected 0, got 3 (field 'a')");
}

TEST(ColumnSlice, BooleansAndListsAreNamed) {
  Made made({{{}, {{.type = 0, .shape = {1}, .chunk_shape = {1}}}}});
  EXPECT_EQ(test::unsupported([&] { made.slice({"a"}); }),
            "layer 0: type: expected one with a known encoding, got bool (field 'a')");
}

TEST(ColumnSlice, AWrongArrayHarmsNoOther) {
  const uint32_t most = 0xFFFFFFFF;
  const MadeArray wide{.name = "wide", .shape = std::vector<uint32_t>(65, 1)};
  const MadeArray huge{.name = "huge", .shape = {most, most, most}, .chunk_shape = {1, 1, 1}};
  const MadeArray deleted{.name = "deleted", .shape = {4}, .chunk_shape = {2}, .deleted = true};
  const MadeArray ranks{.name = "ranks", .shape = {4}, .chunk_shape = {2}, .chunks = {{{0, 0}, 0, 8}}};
  Made made({{count_to(4), {four(), wide, huge, deleted, ranks}}});
  const std::vector<std::string_view> names{"a", "wide", {}, "huge", "deleted", "ranks", "none"};
  const auto column = std::make_shared<const Column>(made.layers(), names);
  BlockCache cache(100);
  const auto rows = [&](std::vector<int64_t> numbers) { return gather(Slice(column, numbers, {}, cache), true); };
  EXPECT_EQ(rows({0, 2, 0})[2], test::read_alone(made.layers(), "a", {}));
  EXPECT_FALSE(rows({0, 2, 0})[1].is_present);
  const auto error = [&](int64_t row) { return test::data_error([&] { rows({0, row}); }); };
  for (int i = 0; i < 2; ++i) EXPECT_EQ(error(1), "layer 0: axes: expected at most 64, got 65 (field 'wide')");
  EXPECT_NE(error(3).find("bytes of the array"), std::string::npos);
  EXPECT_EQ(error(4), "layer 0: no such array (field 'deleted')");
  EXPECT_EQ(error(5), "layer 0: chunk coordinate: expected 1 axes, got 2 (field 'ranks')");
  EXPECT_EQ(error(6), "layer 0: no such array (field 'none')");
  EXPECT_TRUE(rows({}).empty());
}

TEST(ColumnTypes, AllWithAKnownEncoding) {
  EXPECT_EQ(column_type(Type::timestamp), (ColumnType{ColumnKind::numeric, DType::int64}));
  EXPECT_EQ(column_type(Type::string).kind, ColumnKind::text);
  EXPECT_EQ(column_type(Type::binary).kind, ColumnKind::bytes);
  for (uint8_t tag = 1; tag <= static_cast<uint8_t>(Type::float64); ++tag) {
    const auto type = static_cast<Type>(tag);
    EXPECT_EQ(name_of(column_type(type).dtype), name_of(type));
    EXPECT_EQ(atompack::item_bytes(column_type(type).dtype), item_bytes(type));
  }
  for (const Type type : {Type::boolean, Type::fixed_list, Type::list}) {
    EXPECT_EQ(test::unsupported([&] { column_type(type); }),
              cat("type: expected one with a known encoding, got ", name_of(type)));
  }
}

TEST(ColumnSlice, CellsThatNobodyWroteAreLimited) {
  const auto error = [](uint8_t type, uint32_t extent, size_t n_rows) {
    Made made({{{}, {{.type = type, .shape = {extent}, .chunk_shape = {extent}}}}});
    return test::message_of<FieldError>([&] { made.slice(std::vector<std::string_view>(n_rows, "a")); });
  };
  const auto limit = [](uint64_t bytes) {
    return cat("layer 0: unwritten cells: expected at most 268435456 bytes of memory for them, got ", bytes,
               ": read a part (start=, shape=), or raise max_unstored_bytes=");
  };
  constexpr uint64_t kText = sizeof(std::string) + sizeof(void*);
  EXPECT_EQ(error(3, 1 << 26, 1), "nothing was thrown");
  EXPECT_EQ(error(3, (1 << 26) + 1, 1), limit((1 << 28) + 4));
  EXPECT_EQ(error(3, 1 << 25, 3), limit(3 << 27));
  EXPECT_EQ(error(11, (1 << 28) / kText, 1), "nothing was thrown");
  EXPECT_EQ(error(11, 1 << 26, 1), limit((uint64_t{1} << 26) * kText));
  EXPECT_NE(error(4, 0xFFFFFFFF, 1'000'000), "nothing was thrown");
}

TEST(ColumnSlice, PlainBlocksAreReadInStretches) {
  constexpr uint32_t kExtent = 100'000;
  MadeArray array{.shape = {5 * kExtent}, .chunk_shape = {kExtent}};
  for (uint32_t i = 0; i < 5; ++i) array.chunks.push_back({{4 - i}, i * 4 * kExtent, 4 * kExtent});
  Made made({{count_to(5 * kExtent), {array}}});
  const Slice slice = made.slice({"a"});
  EXPECT_EQ(slice.n_units(), 3U);
  uint64_t work = 0;
  for (size_t i = 0; i < slice.n_units(); ++i) work += slice.work(i);
  EXPECT_EQ(work, 20 * kExtent);
  EXPECT_EQ(gather(slice, true, true)[0], test::read_alone(made.layers(), "a", {}));
}

// Files that a writer made, held in memory, so that their blocks can be damaged under a reader.
class WrittenColumn : public testing::Test {
 protected:
  void write(const std::vector<ArrayDefinition>& arrays, const WriterOptions& options) {
    const test::TemporaryFolder folder;
    names_.clear();
    Writer writer(folder / "data.af", options);
    for (const ArrayDefinition& array : arrays) {
      writer.define(array);
      test::write(writer, array.name, test::whole_of(array), values_of(array));
      names_.push_back(array.name);
    }
    writer.flush();
    std::ifstream in(folder / "data.1.af", std::ios::binary);
    file_.assign(std::istreambuf_iterator<char>(in), {});
    std::vector<Layer> layers;
    layers.emplace_back(std::make_shared<io::MemoryBytes>(as_bytes(file_), "data.1.af"));
    layers_.emplace(std::move(layers));
    column_ = std::make_shared<const Column>(*layers_, std::vector<std::string_view>(names_.begin(), names_.end()));
  }

  std::vector<GatheredRow> read(std::vector<int64_t> rows, const SliceRequest& request = {}) {
    return gather(Slice(column_, rows, request, cache_), true);
  }
  std::vector<GatheredRow> read_alone(const std::vector<int64_t>& rows, const SliceRequest& request = {}) const {
    std::vector<GatheredRow> found;
    for (const int64_t row : rows) {
      found.push_back(test::read_alone(*layers_, names_[static_cast<size_t>(row)], request));
    }
    return found;
  }
  void destroy_blocks() {
    const Footer& footer = layers_->layer(0).footer();
    for (uint64_t i = 0; i < footer.n_blocks(); ++i) file_[footer.block(i).offset + 8] ^= 0x55;
  }

  // Of long ones zeros.
  test::Values values_of(const ArrayDefinition& array) {
    const uint64_t n = test::whole_of(array).n_elements();
    return n > 10'000 ? test::Values{std::vector<std::byte>(n), {}} : test::random_values(array.type, n, random_);
  }

  std::minstd_rand random_{1};
  std::vector<std::string> names_;
  std::string file_;
  std::optional<Layers> layers_;
  std::shared_ptr<const Column> column_;
  BlockCache cache_{uint64_t{64} << 20};
};

ArrayDefinition bytes_array(const std::string& name, uint64_t n, uint64_t chunk) {
  return {.name = name, .type = Type::uint8, .shape = {n}, .chunk_shape = {chunk}};
}

TEST_F(WrittenColumn, BlocksWantedInPartAreKept) {
  write({bytes_array("a", 1000, 100), bytes_array("b", 9000, 9000)}, {.codec = codec::Codec::lz4});
  const auto expected = read_alone({0});
  EXPECT_EQ(read({0}), expected);
  EXPECT_EQ(cache_.used(), 10000U);
  destroy_blocks();
  EXPECT_EQ(read({0, 0}, {{{10}}, {{500}}})[1].values.numbers.size(), 500U);
  EXPECT_EQ(read({0}), expected);
}

TEST_F(WrittenColumn, BlocksWantedWholeAreKeptIfAllOfThemFit) {
  write({bytes_array("a", 1000, 100), bytes_array("b", 9000, 9000)}, {.codec = codec::Codec::zstd});
  BlockCache small(10000);
  const auto read_with_small = [&](const std::vector<int64_t>& rows) {
    return gather(Slice(column_, rows, {}, small), true);
  };
  for (const std::vector<int64_t>& rows : {std::vector<int64_t>{0, 1}, {1}, {1, 0}, {0, 1, 1}}) {
    EXPECT_EQ(read_with_small(rows), read_alone(rows));
    EXPECT_EQ(read(rows), read_alone(rows));
  }
  EXPECT_EQ(small.used(), 0U);
  EXPECT_EQ(cache_.used(), 10000U);
  destroy_blocks();
  EXPECT_THROW(read_with_small({0, 1}), CorruptFileError);
}

TEST_F(WrittenColumn, ABlockIsDecodedWhereItGoes) {
  write({bytes_array("a", 100, 100), bytes_array("b", 300, 300)}, {.codec = codec::Codec::zstd});
  const std::vector<std::vector<int64_t>> orders{{0, 1}, {1, 0}, {0, 0, 1}, {0, 1, 0, 1}, {1, 0, 1}};
  for (const std::vector<int64_t>& rows : orders) {
    BlockCache none(0);
    EXPECT_EQ(gather(Slice(column_, rows, {}, none), true), read_alone(rows));
  }
}

// Of many blocks that are needed only in part, only that part is kept.
TEST_F(WrittenColumn, OfManyBlocksStretchesAreKept) {
  constexpr uint64_t kSmall = 8192, kLarge = uint64_t{8} << 20;
  for (const codec::Codec codec : {codec::Codec::lz4, codec::Codec::zstd}) {
    std::vector<ArrayDefinition> arrays;
    for (int i = 0; i < 9; ++i) {
      arrays.push_back(bytes_array(cat("a", i), kSmall, kSmall / 2));
      arrays.push_back(bytes_array(cat("pad", i), kLarge, kLarge));
      arrays.push_back(bytes_array(cat("z", i), kSmall, kSmall));
    }
    write(arrays, {.codec = codec, .block_bytes = kLarge + kSmall + 1});
    std::vector<int64_t> first, both;
    for (int64_t i = 0; i < 27; i += 3) {
      first.push_back(i);
      both.insert(both.end(), {i, i + 2});
    }
    const auto expected = read_alone(both);
    BlockCache cache(uint64_t{1} << 20);
    const auto gather_cached = [&](const std::vector<int64_t>& rows) {
      return gather(Slice(column_, rows, {}, cache), true);
    };
    gather_cached(first);
    EXPECT_EQ(cache.used(), 9 * kSmall);
    EXPECT_EQ(gather_cached(both), expected);
    EXPECT_EQ(cache.used(), 18 * kSmall);
    destroy_blocks();
    EXPECT_EQ(gather_cached(both), expected);
    EXPECT_THROW(read(both), CorruptFileError);
  }
}

// Random arrays in many layers, as columns and one by one.

using codec::Codec;
using test::gather;
using test::GatheredRow;

constexpr size_t kRanks = 4;

class RandomColumns : public testing::TestWithParam<Codec> {
 protected:
  std::string path() const { return folder_ / "data.af"; }
  uint32_t below(uint32_t end) { return static_cast<uint32_t>(random_() >> 4) % end; }

  // Deletes what was there of this name.
  void define(Writer& writer, const std::string& name, size_t rank) {
    constexpr std::array kTypes{Type::int8,    Type::uint16,    Type::int32,  Type::float64,
                                Type::float32, Type::timestamp, Type::string, Type::binary};
    ArrayDefinition array{.name = name, .type = kTypes.at(below(kTypes.size()))};
    for (size_t i = 0; i < rank; ++i) {
      array.shape.push_back(below(8) == 0 ? 0 : 1 + below(9));
      array.chunk_shape.push_back(1 + below(5));
    }
    if (array.type == Type::int32) array.fill = int64_t{-1};
    if (array.type == Type::float64) array.fill = 0.5;
    if (writer.contains(name)) writer.remove(name);
    writer.define(array);
  }

  void write_part(Writer& writer, const std::string& name) {
    const ArrayDefinition array = writer.definition(name);
    if (test::whole_of(array).n_elements() == 0) return;
    const Box box = test::random_box(array.shape, random_);
    test::write(writer, name, box, test::random_values(array.type, box.n_elements(), random_));
  }

  static std::string name_of(size_t rank, size_t i) { return cat("r", rank, "_", i); }

  void write_layer() {
    Writer writer(path(), {.codec = GetParam(), .block_bytes = 20 + below(2000), .n_threads = 1});
    for (size_t rank = 0; rank < kRanks; ++rank) {
      for (size_t i = 0; i < kArrays; ++i) {
        const std::string name = name_of(rank, i);
        if (!writer.contains(name) || below(12) == 0) define(writer, name, rank);
        for (uint32_t n = below(3); n > 0; --n) write_part(writer, name);
        if (below(15) == 0) writer.remove(name);
      }
    }
    writer.flush();
  }

  SliceRequest random_request(size_t rank) {
    SliceRequest request;
    const auto axes = [&](uint32_t end) {
      std::vector<uint64_t> made;
      for (size_t i = 0; i < rank; ++i) made.push_back(below(end));
      return made;
    };
    if (below(2) == 0) request.start = axes(5);
    if (below(2) == 0) request.count = axes(12);
    return request;
  }

  void compare(const Layers& layers, size_t rank) {
    std::vector<std::string> names;
    for (size_t i = 0; i < kArrays; ++i) names.push_back(name_of(rank, i));
    std::vector<std::string_view> views(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      if (layers.contains(names[i])) views[i] = names[i];
    }
    const auto column = std::make_shared<const Column>(layers, views);
    for (int i = 0; i < 25; ++i) {
      std::vector<int64_t> rows(below(2 * kArrays));
      for (int64_t& row : rows) row = below(kArrays);
      const SliceRequest request = random_request(rank);
      std::vector<GatheredRow> expected;
      for (const int64_t row : rows) {
        expected.push_back(test::read_alone(layers, views[static_cast<size_t>(row)], request));
        n_present_ += expected.back().is_present ? 1 : 0;
      }
      const Slice slice(column, rows, request, cache_);
      ASSERT_EQ(gather(slice, false, true), expected);
      ASSERT_EQ(gather(slice, true), expected);
    }
  }

  static constexpr uint32_t kArrays = 8;
  test::TemporaryFolder folder_{test::folder_in_memory()};
  std::minstd_rand random_{7};
  BlockCache cache_{5000};
  int n_present_ = 0;
};

TEST_P(RandomColumns, AreReadAsEachArrayAlone) {
  for (int layer = 0; layer < 8; ++layer) {
    write_layer();
    const Reader local(path()), remote(test::FakeStore::of(folder_.path(), "./data.af"));
    for (size_t rank = 0; rank < kRanks; ++rank) {
      compare(local.layers(), rank);
      compare(remote.layers(), rank);
    }
  }
  EXPECT_GT(n_present_, 4000);
}

INSTANTIATE_TEST_SUITE_P(All, RandomColumns, testing::Values(Codec::none, Codec::lz4, Codec::zstd),
                         [](const auto& instance) { return std::string(codec::name_of(instance.param)); });

}  // namespace
}  // namespace atompack::array_file
