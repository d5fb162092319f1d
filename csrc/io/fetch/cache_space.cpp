#include "io/fetch/cache_space.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "codec/checksums.h"
#include "io/file.h"
#include "io/system_error.h"

namespace atompack::io::fetch {
namespace {

constexpr std::string_view kAccountName = "account.lock";
constexpr size_t kAccountBytes = 12;  // the sum, and its checksum

std::optional<uint64_t> read_account(int fd, const std::string& path) {
  std::array<std::byte, kAccountBytes> bytes{};
  if (read_at(fd, 0, bytes, path) != bytes.size()) return std::nullopt;
  const Bytes sum = Bytes(bytes).first(sizeof(uint64_t));
  if (load_le<uint32_t>(bytes.data() + sum.size()) != codec::crc32c(sum)) return std::nullopt;
  return load_le<uint64_t>(sum.data());
}

void write_account(int fd, uint64_t sum, const std::string& path) {
  std::array<std::byte, kAccountBytes> bytes{};
  std::byte* const end = store_le(bytes.data(), sum);
  store_le(end, codec::crc32c({bytes.data(), end}));
  write_at(fd, 0, bytes, path);
}

uint64_t portion_of_cache(uint64_t max_bytes) {
  return std::min<uint64_t>(std::clamp<uint64_t>(max_bytes / 1024, 64 << 10, 64 << 20), max_bytes / 4);
}

int64_t steady_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

CacheSpace::CacheSpace(std::string folder, uint64_t max_bytes, std::function<void(const GroupId&)> close)
    : folder_(std::move(folder)),
      max_bytes_(max_bytes),
      portion_(portion_of_cache(max_bytes)),
      close_(std::move(close)) {}

CacheSpace::Answer CacheSpace::take(uint64_t bytes) {
  if (try_take(bytes)) {
    // Early, because another process may be busy evicting when the portion ends.
    if (available_.load(std::memory_order_relaxed) < static_cast<int64_t>(portion_ / 2)) renew();
    return Answer::taken;
  }
  const Answer renewed = renew();
  if (renewed != Answer::taken || try_take(bytes)) return renewed;
  return bytes > portion_ ? Answer::full : Answer::busy;
}

bool CacheSpace::try_take(uint64_t bytes) {
  const auto wanted = static_cast<int64_t>(bytes);
  int64_t available = available_.load(std::memory_order_relaxed);
  while (available >= wanted) {
    if (available_.compare_exchange_weak(available, available - wanted, std::memory_order_relaxed)) return true;
  }
  return false;
}

CacheSpace::Answer CacheSpace::renew() {
  constexpr int64_t kRetryFull = 1000;
  const std::unique_lock lock(renewing_, std::try_to_lock);
  if (!lock) return Answer::busy;
  if (steady_milliseconds() < full_until_) return Answer::full;
  const std::string path = cat(folder_, '/', kAccountName);
  const ProcessFd account(
      UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600)));
  if (!account) throw_errno(path);
  identify(account.get(), path);  // throws unless it is a regular file
  if (::flock(account.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) return Answer::busy;
    throw_errno(path);
  }
  // Unlocks, because a child that is forked now may still have the descriptor.
  const std::unique_ptr<const ProcessFd, void (*)(const ProcessFd*)> unlock(
      &account, [](const ProcessFd* locked) { ::flock(locked->get(), LOCK_UN); });
  const Answer answer = renew_locked(account.get(), path);
  if (answer == Answer::full) full_until_ = steady_milliseconds() + kRetryFull;
  return answer;
}

CacheSpace::Answer CacheSpace::renew_locked(int account, const std::string& path) {
  std::optional<uint64_t> sum = read_account(account, path);
  if (!sum || *sum > max_bytes_ - portion_) {
    // Well below the limit, so that the files are not added up for each portion.
    const uint64_t limit = max_bytes_ - portion_;
    const Eviction result = evict(folder_, limit, limit - std::min(limit, max_bytes_ / 16), close_);
    evicted_bytes_.fetch_add(result.bytes_removed, std::memory_order_relaxed);
    available_.store(0, std::memory_order_relaxed);  // its former portion is part of the files, or unused
    sum = result.bytes_left;
    if (*sum > limit) {
      write_account(account, *sum, path);
      return Answer::full;
    }
  }
  write_account(account, *sum + portion_, path);
  available_.fetch_add(static_cast<int64_t>(portion_), std::memory_order_relaxed);
  return Answer::taken;
}

}  // namespace atompack::io::fetch
