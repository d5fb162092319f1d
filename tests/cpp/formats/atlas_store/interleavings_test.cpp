// A reader that opens a store next to a writer.
#include <array>

#include "formats/array_file/gathered.h"
#include "formats/atlas_store/scenario.h"
#include "formats/atlas_store/store.h"
#include "io/interleaving_fixture.h"

namespace atompack::atlas_store {
namespace {

constexpr WriterOptions kOptions{
    .codec = codec::Codec::none, .form = Form::json, .level = 3, .block_bytes = 64, .n_threads = 1};

struct Read {
  bool refused = false;
  std::array<std::vector<int32_t>, 2> values;
  std::optional<int64_t> attribute;
  std::array<std::optional<int64_t>, 2> maxima;  // those of the statistics
  int32_t n() const { return *std::ranges::max_element(values[0]); }
};

// Arrays a and b of one dataset, which every flush changes alike.
class AtlasInterleavings : public test::InterleavingTest<Writer, Read>, public testing::WithParamInterface<bool> {
 protected:
  AtlasInterleavings() : InterleavingTest(100) {
    writer_ = std::make_unique<Writer>(store_, Mode::create, kOptions, io::unsynced_file_system());
    writer_->create_dataset("d");
    for (const char* const name : {"a", "b"}) {
      array_file::ArrayDefinition definition = test::numbers(name, kChunks);
      definition.chunk_shape = {1};
      writer_->define_array("d", definition);
    }
    writer_->flush();
  }

  void open(io::FileSystem& files) override {
    writer_.reset();
    writer_ = std::make_unique<Writer>(store_, Mode::append, kOptions, files);
  }

  // Values alone leave the metadata as they are; an attribute changes them.
  bool changes_metadata() const { return GetParam(); }

  void write(int32_t n) override {
    for (const char* const name : {"a", "b"}) {
      test::put(*writer_, "d", name, static_cast<uint64_t>(n) % kChunks, {n});
    }
    if (changes_metadata()) writer_->set_attribute("d", "n", int64_t{n});
  }

  Read read() const override {
    Read read;
    try {
      const Store store(store_);
      const std::array<int64_t, 1> rows{0};
      for (uint32_t i = 0; i < 2; ++i) {
        const std::vector<test::GatheredRow> row = test::gather(*store.slice(i, rows, {}), false);
        read.values[i].resize(kChunks);
        std::memcpy(read.values[i].data(), row[0].values.numbers.data(), row[0].values.numbers.size());
        const array_file::Statistics statistics = store.statistics(i);
        if (const auto found = statistics.find("d"); found != statistics.end() && found->second.max) {
          read.maxima[i] = std::get<int64_t>(*found->second.max);
        }
      }
      if (const auto value = store.metadata().find_attribute(0, "n")) read.attribute = std::get<int64_t>(*value);
    } catch (const FieldError& error) {
      read.refused = std::string_view(error.what()).find("written to since") != std::string_view::npos;
      if (!read.refused) throw;
    }
    return read;
  }

  void expect_whole(const Read& read, int32_t first) const override {
    if (read.refused) return;
    const int32_t n = read.n();
    EXPECT_EQ(read.values[0], read.values[1]);
    EXPECT_GE(std::max(n, 0), first);
    EXPECT_LE(n, n_);
    if (n <= 0) return;
    EXPECT_EQ(read.values[0], values_after(n));
    if (changes_metadata()) {
      EXPECT_EQ(read.attribute, n);
    }
    for (const auto& maximum : read.maxima) {
      if (maximum) {
        EXPECT_EQ(*maximum, n);
      }
    }
  }

  const std::string store_ = folder_ / "store";
};

TEST_P(AtlasInterleavings, Flush) {
  play_all([&] { flush(); });
}

TEST_P(AtlasInterleavings, TwoFlushes) {
  play_all([&] {
    flush();
    flush();
  });
}

TEST_P(AtlasInterleavings, Compaction) {
  play_all([&] { writer_->compact(); });
}

TEST_P(AtlasInterleavings, FlushAndCompaction) {
  play_all([&] {
    flush();
    writer_->compact();
  });
}

TEST_P(AtlasInterleavings, CompactionAndFlushes) {
  play_all([&] {
    writer_->compact();
    flush();
    flush();
  });
}

TEST_P(AtlasInterleavings, AWriterThatDies) {
  play([&] { flush(); }, {0, 0});  // for the number of calls
  constexpr size_t kOperations = 40;
  for (size_t i = 0; i < 2 * n_random_ && !HasFailure(); ++i) {
    play([&] { die_and_recover(i % kOperations); }, random_turns());
  }
}

INSTANTIATE_TEST_SUITE_P(Metadata, AtlasInterleavings, testing::Bool(),
                         [](const auto& info) { return info.param ? "Changed" : "AsBefore"; });

}  // namespace
}  // namespace atompack::atlas_store
