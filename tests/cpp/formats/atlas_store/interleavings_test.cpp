// A reader that opens a store next to a writer, with turns changing at any of the system calls of both.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "formats/array_file/gathered.h"
#include "formats/atlas_store/scenario.h"
#include "formats/atlas_store/store.h"
#include "io/faulty_file_system.h"
#include "io/interleaving.h"
#include "io/temporary_folder.h"

namespace atompack::atlas_store {
namespace {

using test::Interleaving;

constexpr uint64_t kChunks = 3;
constexpr WriterOptions kOptions{
    .codec = codec::Codec::none, .form = Form::json, .level = 3, .block_bytes = 64, .n_threads = 1};

// The array after flush n: each flush writes one chunk, which the flushes before it have left as they are.
std::vector<int32_t> values_after(int32_t n) {
  std::vector<int32_t> values(kChunks, -1);
  for (int32_t i = std::max<int32_t>(1, n - static_cast<int32_t>(kChunks) + 1); i <= n; ++i) {
    values[static_cast<size_t>(i) % kChunks] = i;
  }
  return values;
}

struct Seen {
  bool refused = false;
  std::array<std::vector<int32_t>, 2> values;
  std::optional<int64_t> attribute;
  std::array<std::optional<int64_t>, 2> maxima;  // those of the statistics
};

// Arrays a and b of one dataset, which every flush changes alike.
class AtlasInterleavings : public testing::TestWithParam<bool> {
 protected:
  AtlasInterleavings() { open(io::unsynced_file_system(), Mode::create); }

  void open(io::FileSystem& files, Mode mode = Mode::append) {
    writer_.reset();
    writer_ = std::make_unique<Writer>(store_, mode, kOptions, files);
    if (mode == Mode::append) return;
    writer_->create_dataset("d");
    for (const char* const name : {"a", "b"}) {
      array_file::ArrayDefinition definition = test::numbers(name, kChunks);
      definition.chunk_shape = {1};
      writer_->define_array("d", definition);
    }
    writer_->flush();
  }

  // Values alone leave the metadata as they are; an attribute changes them.
  bool changes_metadata() const { return GetParam(); }

  void write(int32_t n) {
    for (const char* const name : {"a", "b"}) {
      test::put(*writer_, "d", name, static_cast<uint64_t>(n) % kChunks, {n});
    }
    if (changes_metadata()) writer_->set_attribute("d", "n", int64_t{n});
  }
  void flush() {
    write(n_ + 1);
    writer_->flush();
    ++n_;
  }
  void compact() { writer_->compact(); }
  // A writer that dies in the middle of a flush, and one that comes after it.
  void die_and_recover(size_t stop_at) {
    test::FaultyFileSystem files;
    try {
      open(files);
      write(n_ + 1);
      files.stop_at = files.n_operations() + stop_at;
      writer_->flush();
    } catch (const test::Stopped&) {
    }
    writer_.reset();
    if (read().attribute_or_value() == n_ + 1) ++n_;  // it died when all was visible
    open(io::unsynced_file_system());
  }

  struct Read : Seen {
    int32_t attribute_or_value() const { return *std::ranges::max_element(values[0]); }
  };

  Read read() const {
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

  // One of the states from flush `first` to the last one, whole.
  void expect_whole(const Read& read, int32_t first) const {
    if (read.refused) return;
    const int32_t n = read.attribute_or_value();
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

  // Some layers, so that a compaction has work to do.
  void prepare(size_t n_layers) {
    compact();
    for (size_t i = 0; i < n_layers; ++i) flush();
  }

  // False where the turns exceed the calls that there are.
  bool play(const std::function<void()>& writing, std::vector<size_t> turns) {
    prepare(turns.size() + turns[0] % 3);
    const int32_t first = n_;
    Read seen;
    const Interleaving played([&] { seen = read(); }, writing, turns);
    expect_whole(seen, first);
    n_refused_ += seen.refused ? 1 : 0;
    const Read after = read();
    EXPECT_FALSE(after.refused);
    expect_whole(after, n_);
    n_reader_calls_ = std::max(n_reader_calls_, played.n_reader_calls());
    n_writer_calls_ = std::max(n_writer_calls_, played.n_writer_calls());
    const bool exceeds = turns[0] > played.n_reader_calls() || (turns.size() > 1 && turns[1] > played.n_writer_calls());
    return !exceeds && !HasFailure();
  }

  void play_all(const std::function<void()>& writing) {
    for (size_t stop = 0; play(writing, {stop, Interleaving::kToItsEnd}); ++stop) {
    }
    n_refused_ = 0;
    for (size_t stop = 0; play(writing, {0, stop, Interleaving::kToItsEnd}); ++stop) {
    }
    EXPECT_EQ(n_refused_, 0U) << "nothing comes between while the writer waits";
    for (size_t i = 0; i < n_random() && !HasFailure(); ++i) play(writing, random_turns());
  }

  std::vector<size_t> random_turns() {
    std::vector<size_t> turns;
    const size_t n = 3 + random_() % 4;
    for (size_t i = 0; i < n; ++i) turns.push_back(random_() % (i % 2 == 0 ? n_reader_calls_ : n_writer_calls_));
    return turns;
  }

  static size_t n_random() {
    const char* const asked = std::getenv("ATOMPACK_INTERLEAVINGS");
    return asked == nullptr ? 100 : std::stoul(asked);
  }

  const test::TemporaryFolder folder_{test::folder_in_memory()};
  const std::string store_ = folder_ / "store";
  std::unique_ptr<Writer> writer_;
  int32_t n_ = 0;  // flushes
  size_t n_refused_ = 0, n_reader_calls_ = 1, n_writer_calls_ = 1;
  std::minstd_rand random_{7};
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
  play_all([&] { compact(); });
}

TEST_P(AtlasInterleavings, FlushAndCompaction) {
  play_all([&] {
    flush();
    compact();
  });
}

TEST_P(AtlasInterleavings, CompactionAndFlushes) {
  play_all([&] {
    compact();
    flush();
    flush();
  });
}

TEST_P(AtlasInterleavings, AWriterThatDies) {
  play([&] { flush(); }, {0, 0});  // for the number of calls
  constexpr size_t kOperations = 40;
  for (size_t i = 0; i < 2 * n_random() && !HasFailure(); ++i) {
    play([&] { die_and_recover(i % kOperations); }, random_turns());
  }
}

INSTANTIATE_TEST_SUITE_P(Metadata, AtlasInterleavings, testing::Bool(),
                         [](const auto& info) { return info.param ? "Changed" : "AsBefore"; });

}  // namespace
}  // namespace atompack::atlas_store
