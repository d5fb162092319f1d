// Disk space of a block cache, shared by all processes that write to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "io/fetch/cache_folder.h"
#include "io/process_fd.h"

namespace atompack::io::fetch {

// Space is taken from a common account in portions, so that processes meet rarely. When the account is full, the
// process that finds it full adds up the files and evicts some. Processes together may exceed the limit by a portion
// each. Thread-safe.
class CacheSpace {
 public:
  CacheSpace(std::string folder, uint64_t max_bytes, std::function<void(const GroupId&)> close);

  // Bytes taken from the account at once: a thousandth of the cache, 64 KiB to 64 MiB, at most a quarter.
  uint64_t portion() const { return portion_; }

  enum class Answer : uint8_t { taken, busy, full };
  // Takes space for a write. `busy`: another thread or process is at the account; `full`: no file can be removed, which
  // is then found out again after a second. Never waits, but may evict files. Throws IoError.
  Answer take(uint64_t bytes);
  // Takes space that was used already.
  void charge(uint64_t bytes) { available_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed); }

  uint64_t evicted_bytes() const { return evicted_bytes_.load(std::memory_order_relaxed); }

 private:
  bool try_take(uint64_t bytes);
  Answer renew();
  Answer renew_locked(int account, const std::string& path);

  const std::string folder_;
  const uint64_t max_bytes_, portion_;
  const std::function<void(const GroupId&)> close_;
  std::mutex renewing_;
  std::atomic<int64_t> available_ = 0;
  int64_t full_until_ = 0;  // milliseconds of a steady clock; guarded by renewing_
  std::atomic<uint64_t> evicted_bytes_ = 0;
};

}  // namespace atompack::io::fetch
