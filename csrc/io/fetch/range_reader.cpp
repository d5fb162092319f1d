#include "io/fetch/range_reader.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "threads/process.h"

namespace atompack::io::fetch {
namespace {

// The state that a waiting caller and the one who ends its wait share.
struct Wait {
  std::mutex mutex;
  std::condition_variable ended;
  bool has_ended = false;
  std::exception_ptr error;
};

}  // namespace

void wait_for(const std::function<void(Done)>& start) {
  const auto wait = std::make_shared<Wait>();
  start([wait](std::exception_ptr error) {
    const std::lock_guard lock(wait->mutex);
    wait->error = std::move(error);
    wait->has_ended = true;
    wait->ended.notify_all();
  });
  std::unique_lock lock(wait->mutex);
  while (!wait->ended.wait_for(lock, std::chrono::milliseconds(100), [&] { return wait->has_ended; })) {
    lock.unlock();
    threads::check_for_interruption();
    lock.lock();
  }
  if (wait->error) std::rethrow_exception(std::exchange(wait->error, nullptr));
}

std::vector<std::byte> read_range(const OpenObject& object, uint64_t offset, uint64_t length) {
  const uint64_t size = object.version.size;
  if (offset > size || length > size - offset) {
    throw std::out_of_range(cat("expected a range of ", size, " bytes, got ", length, " at ", offset));
  }
  const auto bytes = std::make_shared<std::vector<std::byte>>(length);
  wait_for([&](const Done& done) {
    object.reader->read({offset, {std::span(*bytes)}},
                        [bytes, done](std::exception_ptr error) { done(std::move(error)); });
  });
  return std::move(*bytes);
}

}  // namespace atompack::io::fetch
