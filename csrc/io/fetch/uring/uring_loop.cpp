#include "io/fetch/uring/uring_loop.h"

#include <liburing.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <iterator>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "io/process_fd.h"

namespace atompack::io::fetch {
namespace {

constexpr size_t kMaxVectors = 1024;  // of one read, by the kernel
constexpr int kMaxAttempts = 1000;
constexpr std::chrono::milliseconds kPauseAfterError{1};

// Returns 0 or an error number.
int set_up(io_uring& ring, unsigned n_entries) {
  io_uring_params parameters{};
  parameters.flags = IORING_SETUP_CLAMP | IORING_SETUP_COOP_TASKRUN;
  int result = io_uring_queue_init_params(n_entries, &ring, &parameters);
  if (result == -EINVAL) {  // older than Linux 5.19
    parameters = {};
    parameters.flags = IORING_SETUP_CLAMP;
    result = io_uring_queue_init_params(n_entries, &ring, &parameters);
  }
  return -result;
}

std::exception_ptr error_of(const DirectRead& read, int code, const std::string& what) {
  return std::make_exception_ptr(IoError(code, what, read.file->path));
}

void copy_bounced(const DirectRead& read) {
  const std::byte* from = read.bounce.get() + read.bounce_skip;
  for (const auto part : read.bounced) {
    std::copy_n(from, part.size(), part.begin());
    from += part.size();
  }
}

}  // namespace

bool is_uring_available() {
  io_uring ring{};
  if (set_up(ring, 1) != 0) return false;
  io_uring_queue_exit(&ring);
  return true;
}

class UringLoop::Ring {
 public:
  Ring() : wake_(UniqueFd(::eventfd(0, EFD_CLOEXEC))) {
    if (!wake_) throw IoError(errno, cat("eventfd: ", std::strerror(errno)), "io_uring");
    if (const int code = set_up(ring_, kDepth + 1); code != 0) {
      throw IoError(code, cat("not available here (", std::strerror(code), ")"), "io_uring");
    }
    io_uring_ring_dontfork(&ring_);
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for other threads
    try {
      thread_ = std::thread([this] { run(); });
    } catch (...) {
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
      io_uring_queue_exit(&ring_);
      throw;
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Ring() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      is_waiting_ = false;
    }
    wake();
    thread_.join();
    io_uring_queue_exit(&ring_);
  }

  void start(std::unique_ptr<DirectRead> read) {
    bool wakes = false;
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(read));
      std::swap(wakes, is_waiting_);
    }
    if (wakes) wake();
  }

 private:
  using Reads = std::deque<std::unique_ptr<DirectRead>>;

  void wake() const {
    const uint64_t one = 1;
    while (::write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  }

  void run() {
    while (true) {
      bool ends = false;
      {
        const std::lock_guard lock(mutex_);
        is_waiting_ = false;
        ends = ends_;
        std::ranges::move(queue_, std::back_inserter(ready_));
        queue_.clear();
      }
      // The kernel may write to this object until the last read is complete, that of the event's counter too.
      if (ends && ready_.empty() && n_in_flight_ == 0 && !is_watching_) return;
      if (!ends) watch_for_wakes();
      submit_ready();
      bool waits = false;
      {
        const std::lock_guard lock(mutex_);
        is_waiting_ = waits = queue_.empty() && !(ends_ && n_in_flight_ == 0 && !is_watching_);
      }
      const int result = waits ? io_uring_submit_and_wait(&ring_, 1) : io_uring_submit(&ring_);
      // Nothing is lost: what was not submitted is with the next call.
      if (result < 0 && result != -EINTR) std::this_thread::sleep_for(kPauseAfterError);
      take_results();
    }
  }

  // A read of the event's counter, which completes when a thread has work for this one.
  void watch_for_wakes() {
    if (is_watching_) return;
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) return;  // the next round has room
    io_uring_prep_read(entry, wake_.get(), &wake_count_, sizeof wake_count_, 0);
    io_uring_sqe_set_data(entry, nullptr);
    is_watching_ = true;
  }

  void submit_ready() {
    while (!ready_.empty() && n_in_flight_ < kDepth) {
      io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
      if (entry == nullptr) return;
      DirectRead* const read = ready_.front().release();  // until its result has arrived
      ready_.pop_front();
      const iovec* const into = read->into.data() + read->n_read;
      const size_t n = std::min(read->into.size() - read->n_read, kMaxVectors);
      if (n == 1) {
        io_uring_prep_read(entry, read->file->fd.get(), into->iov_base, static_cast<unsigned>(into->iov_len),
                           read->offset);
      } else {
        io_uring_prep_readv(entry, read->file->fd.get(), into, static_cast<unsigned>(n), read->offset);
      }
      io_uring_sqe_set_data(entry, read);
      ++n_in_flight_;
    }
  }

  void take_results() {
    std::array<io_uring_cqe*, 64> results{};
    while (const unsigned n = io_uring_peek_batch_cqe(&ring_, results.data(), results.size())) {
      for (unsigned i = 0; i < n; ++i) {
        std::unique_ptr<DirectRead> read(static_cast<DirectRead*>(io_uring_cqe_get_data(results[i])));
        if (!read) {
          is_watching_ = false;
          continue;
        }
        --n_in_flight_;
        finish(std::move(read), results[i]->res);
      }
      io_uring_cq_advance(&ring_, n);
    }
  }

  void finish(std::unique_ptr<DirectRead> read, int result) {
    std::exception_ptr error;
    if (result == -EINTR || result == -EAGAIN) {
      if (++read->n_attempts < kMaxAttempts) return ready_.push_back(std::move(read));
    }
    if (result < 0) {
      error = error_of(*read, -result, std::strerror(-result));
    } else if (static_cast<uint64_t>(result) < read->needed) {
      if (advance(*read, static_cast<uint64_t>(result))) return ready_.push_back(std::move(read));
      error = error_of(*read, ENODATA, "the file ended before the bytes to be read");
    } else {
      copy_bounced(*read);
    }
    read->done(std::move(error));
  }

  // Omits what a short read has read. Returns false if that is not a page: the file has ended.
  static bool advance(DirectRead& read, uint64_t n) {
    n = n / kPageBytes * kPageBytes;
    if (n == 0) return false;
    read.n_attempts = 0;
    read.offset += n;
    read.needed -= n;
    while (n > 0) {
      iovec& part = read.into[read.n_read];
      const uint64_t of_part = std::min<uint64_t>(n, part.iov_len);
      part.iov_base = static_cast<std::byte*>(part.iov_base) + of_part;
      part.iov_len -= of_part;
      if (part.iov_len == 0) ++read.n_read;
      n -= of_part;
    }
    return true;
  }

  io_uring ring_{};
  ProcessFd wake_;
  std::mutex mutex_;  // guards the next three
  Reads queue_;
  bool is_waiting_ = false;  // the thread, for the event or a result
  bool ends_ = false;
  // Used by the thread only:
  Reads ready_;
  size_t n_in_flight_ = 0;
  bool is_watching_ = false;
  uint64_t wake_count_ = 0;
  std::thread thread_;
};

UringLoop::UringLoop() : ring_([] { return std::make_unique<Ring>(); }) {}

UringLoop::~UringLoop() = default;

void UringLoop::start(std::unique_ptr<DirectRead> read) const { ring_.get().start(std::move(read)); }

}  // namespace atompack::io::fetch
