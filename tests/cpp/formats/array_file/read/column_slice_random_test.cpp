// Random arrays in many layers, as columns and one by one.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "formats/array_file/array_model.h"
#include "formats/array_file/gathered.h"
#include "formats/array_file/read/column_slice.h"
#include "io/fake_store.h"
#include "io/temporary_folder.h"

namespace atompack::array_file {
namespace {

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
