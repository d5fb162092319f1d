// Store whose files are those of a local folder, read over a slow network that counts requests.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/folder.h"
#include "io/local_file.h"
#include "io/open_file.h"

namespace atompack::test {

struct Requests {
  int opens = 0, versions = 0, lists = 0, reads = 0;
  uint64_t bytes_read = 0;
  // Number of times that a reader waited for the latency: reads of announced ranges wait together.
  int waits = 0;
  int all() const { return opens + versions + lists + reads; }
};

// URLs are mem://NAME of a file in the folder. Files are never mapped. A file that was replaced or written to since it
// was opened is IoError (ESTALE).
class FakeStore final : public io::Store, public std::enable_shared_from_this<FakeStore> {
 public:
  static constexpr std::string_view kScheme = "mem://";

  explicit FakeStore(std::string folder) : folder_(std::move(folder)) {}

  // A place in a new store of this folder.
  static io::Location of(const std::string& folder, const std::string& name) {
    return std::make_shared<FakeStore>(folder)->at(name);
  }
  io::Location at(const std::string& name) const { return {cat(kScheme, name), shared_from_this()}; }

  // Each request takes this long.
  void set_latency(std::chrono::milliseconds latency) { latency_ = latency; }

  // Like a plain HTTP server.
  void forbid_listing() { lists_ = false; }

  Requests requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  void reset() const {
    const std::lock_guard lock(mutex_);
    requests_ = {};
  }

  std::shared_ptr<const io::OpenFile> open(const std::string& url) const override {
    count(&Requests::opens);
    std::this_thread::sleep_for(latency_);
    const std::string path = local(url);
    if (!std::filesystem::is_regular_file(path)) fail(ENOENT, url);
    return std::make_shared<const File>(shared_from_this(), url, path);
  }

  std::optional<io::FileVersion> version_of(const std::string& url) const override {
    count(&Requests::versions);
    std::this_thread::sleep_for(latency_);
    const std::string path = local(url);
    return std::filesystem::is_regular_file(path) ? io::version_of(path) : std::nullopt;
  }

  std::vector<std::string> names_in(const std::string& url) const override {
    count(&Requests::lists);
    std::this_thread::sleep_for(latency_);
    if (!lists_) fail(EOPNOTSUPP, url);
    const std::string path = local(url);
    std::vector<std::string> names;
    if (std::filesystem::is_directory(path)) names = io::names_in(path);
    std::erase_if(names, [&](const std::string& name) { return !holds_a_file(cat(path, '/', name)); });
    if (names.empty()) fail(ENOENT, url);
    return names;
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Announced {
    io::ByteRange range;
    Clock::time_point arrival;
  };

  class File final : public io::OpenFile {
   public:
    File(std::shared_ptr<const FakeStore> store, std::string url, std::string path)
        : store_(std::move(store)),
          url_(std::move(url)),
          path_(std::move(path)),
          version_(io::version_of(path_).value()) {}

    const std::string& path() const override { return url_; }
    uint64_t size() const override { return version_.size; }
    const io::FileVersion& version() const override { return version_; }

    size_t read_at(uint64_t offset, std::span<std::byte> into) const override {
      if (into.empty() || offset >= version_.size) return 0;
      wait_for(offset, std::min<uint64_t>(into.size(), version_.size - offset));
      const auto now = io::version_of(path_);
      if (!now || !(*now == version_)) throw IoError(ESTALE, "the file was replaced since it was opened", url_);
      return io::LocalFile(path_).read_at(offset, into);
    }

    std::unique_ptr<const io::ByteSource> bytes(uint64_t length, io::Access, bool) const override {
      return std::make_unique<const io::FileRanges>(shared_from_this(), length);
    }

    int64_t window() const override { return 1024; }
    void announce(std::span<const io::ByteRange> ranges) const override {
      const Clock::time_point arrival = Clock::now() + store_->latency_;
      const std::lock_guard lock(mutex_);
      for (const io::ByteRange& range : ranges) announced_.push_back({range, arrival});
      for (const io::ByteRange& range : ranges) store_->count_read(range.length);
    }
    bool is_sample_due() const override { return false; }
    void sample(std::span<const io::ByteRange>) const override {}

   private:
    // Waits until an announced range has arrived.
    void wait_for(uint64_t offset, uint64_t n) const {
      Clock::time_point arrival = Clock::now() + store_->latency_;
      if (!find(offset, n, arrival)) store_->count_read(n);
      if (Clock::now() >= arrival) return;
      store_->count(&Requests::waits);
      std::this_thread::sleep_until(arrival);
    }

    bool find(uint64_t offset, uint64_t n, Clock::time_point& arrival) const {
      const std::lock_guard lock(mutex_);
      for (const Announced& announced : announced_) {
        if (announced.range.offset > offset || announced.range.end() < offset + n) continue;
        arrival = announced.arrival;
        return true;
      }
      return false;
    }

    std::shared_ptr<const FakeStore> store_;
    std::string url_, path_;
    io::FileVersion version_;
    mutable std::mutex mutex_;
    mutable std::vector<Announced> announced_;
  };

  [[noreturn]] static void fail(int code, const std::string& url) { throw IoError(code, std::strerror(code), url); }

  // Folders that hold no file do not exist.
  static bool holds_a_file(const std::string& path) {
    if (!std::filesystem::is_directory(path)) return true;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (!entry.is_directory()) return true;
    }
    return false;
  }

  std::string local(const std::string& url) const {
    if (!url.starts_with(kScheme)) throw IoError(EINVAL, "expected a URL of this store", url);
    return cat(folder_, '/', url.substr(kScheme.size()));
  }

  void count(int Requests::* kind) const {
    const std::lock_guard lock(mutex_);
    ++(requests_.*kind);
  }
  void count_read(uint64_t n) const {
    const std::lock_guard lock(mutex_);
    ++requests_.reads;
    requests_.bytes_read += n;
  }

  std::string folder_;
  std::chrono::milliseconds latency_{0};
  bool lists_ = true;
  mutable std::mutex mutex_;
  mutable Requests requests_;
};

}  // namespace atompack::test
