// Reading ahead of a local file that is not in memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

namespace atompack::io {

struct ByteRange {
  uint64_t offset = 0, length = 0;
  uint64_t end() const { return offset + length; }
};

// Detects from samples whether a file is in memory. Announcing ranges of a file that is in memory costs up to half of
// the time of reading them, so it is done only where it helps. Thread-safe.
class Residency {
 public:
  enum class State : uint8_t { unknown, resident, absent };

  State state() const { return state_.load(std::memory_order_relaxed); }

  // Called once for each batch that was not announced. True if a sample of it should be taken now: always if nothing is
  // known; otherwise once in several batches, or if the last batch was long ago or took long.
  bool is_due() const;

  // Takes a sample of these ranges, before they are announced or read. `fd` is open for reading, and advised
  // POSIX_FADV_RANDOM unless its reads may read more. Returns the new state.
  State sample(int fd, std::span<const ByteRange> ranges) const;
  // The same for the outcome of a sample: true if all of it was in memory.
  State update(bool is_resident) const;

  // Number of ranges to announce ahead, enough for the parallelism of a disk; see ByteSource::window().
  int64_t window() const {
    constexpr int64_t kWindow[] = {1, 0, 512};
    return kWindow[static_cast<size_t>(state())];
  }

 private:
  mutable std::atomic<State> state_{State::unknown};
  mutable std::atomic<uint32_t> n_batches_{0};   // since the last sample
  mutable std::atomic<int64_t> last_batch_{0};   // time in nanoseconds
  mutable std::atomic<uint32_t> n_resident_{0};  // samples in a row without an absent page
};

// True if reading one byte would not wait for the disk.
bool is_in_memory(int fd, uint64_t offset);

// Size of the pages of memory: 4 KiB, or up to 64 KiB on ARM.
uint64_t page_bytes();

// Calls use(range) for pages of the announced ranges: whole pages, those that follow each other as one run. `length` is
// that of the file.
template <typename Use>
void for_each_page_run(std::span<const ByteRange> ranges, uint64_t length, uint64_t page, const Use& use) {
  ByteRange run;
  for (const ByteRange& range : ranges) {
    if (range.length == 0 || range.offset >= length) continue;
    const uint64_t begin = range.offset / page * page;
    const uint64_t end = range.offset + std::min(range.length, length - range.offset);
    if (run.length > 0 && begin >= run.offset && begin <= run.end()) {
      run.length = std::max(run.end(), end) - run.offset;
      continue;
    }
    if (run.length > 0) use(run);
    run = {begin, end - begin};
  }
  if (run.length > 0) use(run);
}

}  // namespace atompack::io
