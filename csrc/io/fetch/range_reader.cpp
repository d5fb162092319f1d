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

// The state that a waiting caller and the reader share.
struct Arrival {
  std::mutex mutex;
  std::condition_variable ended;
  bool has_ended = false;
  std::exception_ptr error;
  std::vector<std::byte> bytes;  // belongs to the request, should the caller be interrupted
};

}  // namespace

std::vector<std::byte> read_range(const OpenObject& object, uint64_t offset, uint64_t length) {
  const uint64_t size = object.version.size;
  if (offset > size || length > size - offset) {
    throw std::out_of_range(cat("expected a range of ", size, " bytes, got ", length, " at ", offset));
  }
  const auto arrival = std::make_shared<Arrival>();
  arrival->bytes.resize(length);
  object.reader->read({offset, {std::span(arrival->bytes)}}, [arrival](std::exception_ptr error) {
    const std::lock_guard lock(arrival->mutex);
    arrival->error = std::move(error);
    arrival->has_ended = true;
    arrival->ended.notify_all();
  });
  std::unique_lock lock(arrival->mutex);
  while (!arrival->ended.wait_for(lock, std::chrono::milliseconds(100), [&] { return arrival->has_ended; })) {
    lock.unlock();
    threads::check_for_interruption();
    lock.lock();
  }
  if (arrival->error) std::rethrow_exception(std::exchange(arrival->error, nullptr));
  return std::move(arrival->bytes);
}

}  // namespace atompack::io::fetch
