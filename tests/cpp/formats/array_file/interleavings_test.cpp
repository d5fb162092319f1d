// A reader that opens an array file next to a writer, with turns changing at any of the system calls of both.
#include <gtest/gtest.h>

#include <random>

#include "formats/array_file/read/reader.h"
#include "formats/array_file/write/writer.h"
#include "io/faulty_file_system.h"
#include "io/interleaving.h"
#include "io/temporary_folder.h"

namespace atompack::array_file {
namespace {

using test::Interleaving;

constexpr uint64_t kChunks = 3;

// The array after flush n: each flush writes one chunk, which the flushes before it have left as they are.
std::vector<int32_t> values_after(int32_t n) {
  std::vector<int32_t> values(kChunks, -1);
  for (int32_t i = std::max<int32_t>(1, n - static_cast<int32_t>(kChunks) + 1); i <= n; ++i) {
    values[static_cast<size_t>(i) % kChunks] = i;
  }
  return values;
}

class ArrayInterleavings : public testing::Test {
 protected:
  ArrayInterleavings() {
    open(io::unsynced_file_system());
    writer_->define({.name = "x",
                     .type = Type::int32,
                     .shape = {kChunks},
                     .dimension_names = {"i"},
                     .chunk_shape = {1},
                     .fill = int64_t{-1}});
    writer_->flush();
  }

  void open(io::FileSystem& files) {
    writer_.reset();
    writer_ = std::make_unique<Writer>(path_, WriterOptions{.codec = codec::Codec::none, .n_threads = 1}, files);
  }
  void write(int32_t n) {
    const std::array<int32_t, 1> value{n};
    writer_->write("x", {{static_cast<uint64_t>(n) % kChunks}, {1}}, std::as_bytes(std::span(value)));
  }
  void flush() {
    write(n_ + 1);
    writer_->flush();
    ++n_;
  }
  void die_and_go_on(size_t stop_at) {
    test::FaultyFileSystem files;
    try {
      open(files);
      write(n_ + 1);
      files.stop_at = files.n_operations() + stop_at;
      writer_->flush();
    } catch (const test::Stopped&) {
    }
    writer_.reset();
    if (read().n() == n_ + 1) ++n_;  // it died when all was visible
    open(io::unsynced_file_system());
  }

  struct Read {
    std::vector<int32_t> values;
    std::optional<int64_t> maximum;  // of the statistics
    int32_t n() const { return *std::ranges::max_element(values); }
  };

  Read read() const {
    const Reader reader(path_);
    Read read{std::vector<int32_t>(kChunks), {}};
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

  // One of the states from flush `first` to the last one, whole.
  void expect_whole(const Read& read, int32_t first) const {
    const int32_t n = std::max(read.n(), 0);
    EXPECT_GE(n, first);
    EXPECT_LE(n, n_);
    EXPECT_EQ(read.values, values_after(n));
    if (read.maximum && n > 0) {
      EXPECT_EQ(*read.maximum, n);
    }
  }

  // False where the turns exceed the calls that there are.
  bool play(const std::function<void()>& writing, std::vector<size_t> turns) {
    writer_->compact();
    for (size_t i = 0; i < 1 + turns[0] % 3; ++i) flush();
    const int32_t first = n_;
    std::optional<Read> seen;
    const Interleaving played([&] { seen = read(); }, writing, turns);
    expect_whole(seen.value(), first);
    expect_whole(read(), n_);
    n_reader_calls_ = std::max(n_reader_calls_, played.n_reader_calls());
    n_writer_calls_ = std::max(n_writer_calls_, played.n_writer_calls());
    const bool exceeds = turns[0] > played.n_reader_calls() || (turns.size() > 1 && turns[1] > played.n_writer_calls());
    return !exceeds && !HasFailure();
  }

  std::vector<size_t> random_turns() {
    std::vector<size_t> turns;
    const size_t n = 3 + random_() % 4;
    for (size_t i = 0; i < n; ++i) turns.push_back(random_() % (i % 2 == 0 ? n_reader_calls_ : n_writer_calls_));
    return turns;
  }

  void play_all(const std::function<void()>& writing) {
    for (size_t stop = 0; play(writing, {stop, Interleaving::kToItsEnd}); ++stop) {
    }
    for (size_t stop = 0; play(writing, {0, stop, Interleaving::kToItsEnd}); ++stop) {
    }
    for (size_t i = 0; i < n_random() && !HasFailure(); ++i) play(writing, random_turns());
  }

  static size_t n_random() {
    const char* const asked = std::getenv("ATOMPACK_INTERLEAVINGS");
    return asked == nullptr ? 200 : std::stoul(asked);
  }

  const test::TemporaryFolder folder_{test::folder_in_memory()};
  const std::string path_ = folder_ / "data.af";
  std::unique_ptr<Writer> writer_;
  int32_t n_ = 0;  // flushes
  size_t n_reader_calls_ = 1, n_writer_calls_ = 1;
  std::minstd_rand random_{7};
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
  for (size_t i = 0; i < n_random() && !HasFailure(); ++i) {
    play(
        [&] {
          die_and_go_on(i % kOperations);
          flush();
        },
        random_turns());
  }
}

}  // namespace
}  // namespace atompack::array_file
