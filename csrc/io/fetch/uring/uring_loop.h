// Direct reads of files by io_uring, on one thread of each process.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/fetch/page.h"
#include "io/fetch/range_reader.h"
#include "io/unique_fd.h"
#include "threads/per_process.h"

namespace atompack::io::fetch {

// True if the library was built with io_uring, and the kernel and its limits let this process use it now.
bool is_uring_available();

// A file that is open with O_DIRECT.
struct DirectInput {
  UniqueFd fd;
  std::string path;
};

// A read at a multiple of kPageBytes into memory of such addresses and lengths.
struct DirectRead {
  std::shared_ptr<const DirectInput> file;
  uint64_t offset = 0;
  std::vector<iovec> into;
  uint64_t needed = 0;  // bytes; at the end of the file fewer than there is room for
  // Bytes for memory that is not aligned are read into `bounce` and copied from `bounce_skip` on.
  AlignedMemory bounce;
  uint64_t bounce_skip = 0;
  std::vector<std::span<std::byte>> bounced;
  Done done;
  size_t n_read = 0;   // parts of `into` that are complete
  int n_attempts = 0;  // in a row without progress
};

// Thread-safe. A fork has a ring and a thread of its own, from its first read on.
class UringLoop {
 public:
  static constexpr unsigned kDepth = 256;  // reads in flight

  // Throws IoError if io_uring is not available.
  UringLoop();
  // Waits for the reads of this process.
  ~UringLoop();

  // The error is IoError (ENODATA) if the file ends too early.
  void start(std::unique_ptr<DirectRead> read) const;

 private:
  class Ring;
  threads::PerProcess<Ring> ring_;
};

}  // namespace atompack::io::fetch
