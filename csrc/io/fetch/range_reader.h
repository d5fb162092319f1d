// Asynchronous reading of ranges of bytes, from a remote store or past the page cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace atompack::io::fetch {

// Called exactly once for each request, from a thread of the reader, with the error, handed over, or nullptr. Must not
// block or throw.
using Done = std::function<void(std::exception_ptr)>;

// A run of bytes and the memory that receives it, in order. The memory must remain valid until `done` was called.
struct RangeRequest {
  uint64_t offset = 0;
  std::vector<std::span<std::byte>> into;

  uint64_t length() const {
    uint64_t sum = 0;
    for (const auto part : into) sum += part.size();
    return sum;
  }
};

// The bytes of one version of one file or object. Const methods are thread-safe.
class RangeReader {
 public:
  virtual ~RangeReader() = default;

  // Starts reading and returns; all bytes are inside of the file. If the file has changed, the error is IoError
  // (ESTALE).
  virtual void read(RangeRequest request, Done done) const = 0;

  // Number of requests to keep in flight for full speed.
  virtual size_t max_in_flight() const = 0;
};

// The version of an object, by which later requests notice that it has changed.
struct ObjectVersion {
  uint64_t size = 0;
  std::string etag;      // as sent by the server; empty if it sends none
  std::string modified;  // the Last-Modified header
  bool operator==(const ObjectVersion&) const = default;
};

struct OpenObject {
  ObjectVersion version;
  std::vector<std::byte> first;  // the beginning of the object
  std::shared_ptr<const RangeReader> reader;
};

// Calls `start` with what ends the wait, and throws the error that it got. If threads::check_for_interruption() throws,
// what was started continues: it must own all its memory.
void wait_for(const std::function<void(Done)>& start);

// Reads a range and waits for it. Throws std::out_of_range, IoError.
std::vector<std::byte> read_range(const OpenObject& object, uint64_t offset, uint64_t length);

// A store of objects with URLs such as s3://BUCKET/KEY. Const methods are thread-safe.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Reads the version and up to `n_first` bytes of an object, in one request where possible. Throws IoError: ENOENT,
  // EACCES, ETIMEDOUT, or EIO with what the server said.
  virtual OpenObject open(const std::string& url, size_t n_first) const = 0;
};

}  // namespace atompack::io::fetch
