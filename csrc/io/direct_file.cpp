#include "io/direct_file.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "io/fetch/uring/uring_reader.h"
#include "threads/per_process.h"

namespace atompack::io {
namespace {

constexpr uint64_t kDirectBytes = uint64_t{64} << 20;
// Long ranges are those of an index, which are read again and again: the kernel keeps them better. So it does for all
// that was not announced.
constexpr uint64_t kLongRange = uint64_t{128} << 10;

struct DirectReads {
  fetch::PageCache pages{kDirectBytes};
  std::shared_ptr<const fetch::UringLoop> loop = std::make_shared<const fetch::UringLoop>();
};

// Those of this process, as long as files are open.
class SharedReads {
 public:
  std::shared_ptr<DirectReads> find() {
    const std::lock_guard lock(mutex_);
    return reads_.lock();
  }
  std::shared_ptr<DirectReads> find_or_make() {
    const std::lock_guard lock(mutex_);
    auto found = reads_.lock();
    if (!found) reads_ = found = std::make_shared<DirectReads>();
    return found;
  }

 private:
  std::mutex mutex_;
  std::weak_ptr<DirectReads> reads_;
};

SharedReads& shared_reads() {
  static const threads::PerProcess<SharedReads> reads([] { return std::make_unique<SharedReads>(); });
  return reads.get();
}

std::shared_ptr<DirectReads> reads_for(const std::string& path) {
  try {
    return shared_reads().find_or_make();
  } catch (const IoError& error) {
    throw IoError(error.code(),
                  cat("access=\"direct\": ", error.path(), " is ", error.reason(), "; use access=\"random\" instead"),
                  path);
  }
}

class DirectFile final : public OpenFile {
 public:
  DirectFile(std::shared_ptr<const LocalFile> file, uint64_t length)
      : file_(std::move(file)),
        reads_(reads_for(file_->path())),
        paged_(reads_->pages.add(
            length, std::make_shared<const fetch::UringReader>(file_->fd(), file_->path(), reads_->loop), nullptr)) {
    ::posix_fadvise(file_->fd(), 0, 0, POSIX_FADV_RANDOM);  // other reads bring in nothing but their pages
  }

  const std::string& path() const override { return file_->path(); }
  uint64_t size() const override { return file_->size(); }
  const FileVersion& version() const override { return file_->version(); }

  size_t read_at(uint64_t offset, std::span<std::byte> into) const override {
    const bool is_inside = offset <= paged_.length && into.size() <= paged_.length - offset;
    if (!is_inside || !reads_->pages.has(paged_, {offset, into.size()})) return file_->read_at(offset, into);
    try {
      reads_->pages.read(paged_, offset, into);
      return into.size();
    } catch (const IoError& error) {
      if (error.code() != ENODATA) throw;
      return file_->read_at(offset, into);  // what a truncation has left
    }
  }

  std::unique_ptr<const ByteSource> bytes(uint64_t length, Access, bool populate) const override {
    if (populate) reads_->pages.announce(paged_, std::array{ByteRange{0, length}});
    return std::make_unique<const FileRanges>(shared_from_this(), length);
  }

  int64_t window() const override { return reads_->pages.window(paged_); }
  void announce(std::span<const ByteRange> ranges) const override {
    std::vector<ByteRange> direct, kept;
    for (const ByteRange& range : ranges) (range.length < kLongRange ? direct : kept).push_back(range);
    reads_->pages.announce(paged_, direct);
    if (!kept.empty()) file_->announce(kept);
  }

 private:
  std::shared_ptr<const LocalFile> file_;
  std::shared_ptr<DirectReads> reads_;
  fetch::PagedFile paged_;
};

}  // namespace

std::unique_ptr<const ByteSource> direct_bytes(std::shared_ptr<const LocalFile> file, uint64_t length, bool populate) {
  return std::make_shared<const DirectFile>(std::move(file), length)->bytes(length, Access::direct, populate);
}

fetch::PageCacheStats direct_stats() {
  const auto reads = shared_reads().find();
  return reads ? reads->pages.stats() : fetch::PageCacheStats{};
}

}  // namespace atompack::io
