// Tests of a reader that opens what a writer changes, with turns changing at any of the system calls of both.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "io/faulty_file_system.h"
#include "io/interleaving.h"
#include "io/temporary_folder.h"

namespace atompack::test {

// Flushes write numbers into an array of three chunks. A `Read` has n(), the newest flush that it saw, and `refused`
// where it was told only that the writer had been there since.
template <typename Writer, typename Read>
class InterleavingTest : public testing::Test {
 protected:
  static constexpr uint64_t kChunks = 3;

  explicit InterleavingTest(size_t n_random) {
    const char* const asked = std::getenv("ATOMPACK_INTERLEAVINGS");
    n_random_ = asked == nullptr ? n_random : std::stoul(asked);
  }

  // A new writer_ for what there is.
  virtual void open(io::FileSystem& files) = 0;
  virtual void write(int32_t n) = 0;
  virtual Read read() const = 0;
  // One of the states from flush `first` to the last one, whole.
  virtual void expect_whole(const Read& read, int32_t first) const = 0;

  // The array after flush n: each flush writes one chunk, which the flushes before it have left as they are.
  static std::vector<int32_t> values_after(int32_t n) {
    std::vector<int32_t> values(kChunks, -1);
    for (int32_t i = std::max<int32_t>(1, n - static_cast<int32_t>(kChunks) + 1); i <= n; ++i) {
      values[static_cast<size_t>(i) % kChunks] = i;
    }
    return values;
  }

  void flush() {
    write(n_ + 1);
    writer_->flush();
    ++n_;
  }

  // A writer that dies in the middle of a flush, and one that comes after it.
  void die_and_recover(size_t stop_at) {
    FaultyFileSystem files;
    try {
      open(files);
      write(n_ + 1);
      files.stop_at = files.n_operations() + stop_at;
      writer_->flush();
    } catch (const Stopped&) {
    }
    writer_.reset();
    if (read().n() == n_ + 1) ++n_;  // it died when all was visible
    open(io::unsynced_file_system());
  }

  // False where the turns exceed the calls that there are.
  bool play(const std::function<void()>& writing, const std::vector<size_t>& turns) {
    writer_->compact();
    for (size_t i = 0; i < turns.size() + turns[0] % 3; ++i) flush();  // layers for a compaction
    const int32_t first = n_;
    std::optional<Read> seen;
    const Interleaving played([&] { seen = read(); }, writing, turns);
    expect_whole(seen.value(), first);
    n_refused_ += seen->refused ? 1 : 0;
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
    for (size_t i = 0; i < n_random_ && !HasFailure(); ++i) play(writing, random_turns());
  }

  std::vector<size_t> random_turns() {
    std::vector<size_t> turns;
    const size_t n = 3 + random_() % 4;
    for (size_t i = 0; i < n; ++i) turns.push_back(random_() % (i % 2 == 0 ? n_reader_calls_ : n_writer_calls_));
    return turns;
  }

  const TemporaryFolder folder_{folder_in_memory()};
  std::unique_ptr<Writer> writer_;
  int32_t n_ = 0;  // flushes
  size_t n_random_;

 private:
  size_t n_refused_ = 0, n_reader_calls_ = 1, n_writer_calls_ = 1;
  std::minstd_rand random_{7};
};

}  // namespace atompack::test
