// A reader that opens an array file next to a writer.
#include <array>

#include "formats/array_file/read/reader.h"
#include "formats/array_file/write/writer.h"
#include "io/interleaving_fixture.h"

namespace atompack::array_file {
namespace {

struct Read {
  static constexpr bool refused = false;  // only its statistics ever are
  std::vector<int32_t> values;
  std::optional<int64_t> maximum = {};  // of the statistics
  int32_t n() const { return *std::ranges::max_element(values); }
};

class ArrayInterleavings : public test::InterleavingTest<Writer, Read> {
 protected:
  ArrayInterleavings() : InterleavingTest(200) {
    open(io::unsynced_file_system());
    writer_->define({.name = "x",
                     .type = Type::int32,
                     .shape = {kChunks},
                     .dimension_names = {"i"},
                     .chunk_shape = {1},
                     .fill = int64_t{-1}});
    writer_->flush();
  }

  void open(io::FileSystem& files) override {
    writer_.reset();
    writer_ = std::make_unique<Writer>(path_, WriterOptions{.codec = codec::Codec::none, .n_threads = 1}, files);
  }

  void write(int32_t n) override {
    const std::array<int32_t, 1> value{n};
    writer_->write("x", {{static_cast<uint64_t>(n) % kChunks}, {1}}, std::as_bytes(std::span(value)));
  }

  Read read() const override {
    const Reader reader(path_);
    Read read{std::vector<int32_t>(kChunks)};
    const Array array = reader.array("x");
    DecodedBlock last;
    reader.read(array, array.whole(), std::as_writable_bytes(std::span(read.values)), last);
    try {
      const Statistics statistics = reader.statistics();
      if (const auto found = statistics.find("x"); found != statistics.end() && found->second.max) {
        read.maximum = std::get<int64_t>(*found->second.max);
      }
    } catch (const FieldError&) {  // written to since
    }
    return read;
  }

  void expect_whole(const Read& read, int32_t first) const override {
    const int32_t n = std::max(read.n(), 0);
    EXPECT_GE(n, first);
    EXPECT_LE(n, n_);
    EXPECT_EQ(read.values, values_after(n));
    if (read.maximum && n > 0) {
      EXPECT_EQ(*read.maximum, n);
    }
  }

  const std::string path_ = folder_ / "data.af";
};

TEST_F(ArrayInterleavings, Flushes) {
  play_all([&] {
    for (int i = 0; i < 3; ++i) flush();
  });
}

TEST_F(ArrayInterleavings, Compaction) {
  play_all([&] { writer_->compact(); });
}

TEST_F(ArrayInterleavings, FlushesAndCompactions) {
  play_all([&] {
    flush();
    writer_->compact();
    flush();
    flush();
    writer_->compact();
    flush();
  });
}

TEST_F(ArrayInterleavings, AWriterThatDies) {
  play([&] { flush(); }, {0, 0});  // for the number of calls
  constexpr size_t kOperations = 20;
  for (size_t i = 0; i < n_random_ && !HasFailure(); ++i) {
    play(
        [&] {
          die_and_recover(i % kOperations);
          flush();
        },
        random_turns());
  }
}

}  // namespace
}  // namespace atompack::array_file
