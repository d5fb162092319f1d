// Reader of ranges of a local file that bypasses the kernel's page cache.
#pragma once

#include "io/fetch/uring/uring_loop.h"

namespace atompack::io::fetch {

class UringReader final : public RangeReader {
 public:
  // Opens the file of a descriptor again, with O_DIRECT. Throws IoError if its file system has no direct reads.
  UringReader(int fd, const std::string& path, std::shared_ptr<const UringLoop> loop);

  // Fastest for memory aligned to kPageBytes and of such length; other bytes are copied. The error is IoError (ENODATA)
  // if the file has been truncated.
  void read(RangeRequest request, Done done) const override;
  size_t max_in_flight() const override { return UringLoop::kDepth; }

 private:
  std::shared_ptr<const DirectInput> file_;
  std::shared_ptr<const UringLoop> loop_;
};

}  // namespace atompack::io::fetch
