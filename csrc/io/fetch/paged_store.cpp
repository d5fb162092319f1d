#include "io/fetch/paged_store.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "base/bytes.h"
#include "codec/checksums.h"
#include "io/fetch/group_id.h"
#include "io/fetch/page.h"

namespace atompack::io::fetch {
namespace {

constexpr size_t kFirstBytes = 64 * 1024;  // of a file, with the request that opens it
constexpr size_t kMaxKnown = 4096;

class PagedRemoteFile final : public OpenFile {
 public:
  PagedRemoteFile(std::string url, const ObjectVersion& version, PagedFile file, std::shared_ptr<PageCache> pages)
      : url_(std::move(url)), version_(fetch::version_of(version)), file_(std::move(file)), pages_(std::move(pages)) {}

  const std::string& path() const override { return url_; }
  uint64_t size() const override { return version_.size; }
  const FileVersion& version() const override { return version_; }

  size_t read_at(uint64_t offset, std::span<std::byte> into) const override {
    if (offset >= size()) return 0;
    into = into.first(std::min<uint64_t>(into.size(), size() - offset));
    try {
      pages_->read(file_, offset, into);
    } catch (const IoError& error) {
      if (error.code() != ESTALE) throw;
      throw IoError(ESTALE, "the file was replaced since it was opened; refresh() opens the new one", url_);
    }
    return into.size();
  }

  std::unique_ptr<const ByteSource> bytes(uint64_t length, Access, bool populate) const override {
    if (populate) announce(std::array{ByteRange{0, length}});
    return std::make_unique<const FileRanges>(shared_from_this(), length);
  }

  int64_t window() const override { return pages_->window(file_); }
  void announce(std::span<const ByteRange> ranges) const override { pages_->announce(file_, ranges); }

 private:
  std::string url_;
  FileVersion version_;
  PagedFile file_;
  std::shared_ptr<PageCache> pages_;
};

}  // namespace

FileVersion version_of(const ObjectVersion& version) {
  const std::string text = cat(version.etag, '\n', version.etag.empty() ? version.modified : "");
  const std::string digest = codec::sha256_hex(as_bytes(text));
  const auto number = [&](size_t first) {
    uint64_t value = 0;
    std::from_chars(digest.data() + first, digest.data() + first + 16, value, 16);
    return value;
  };
  return {number(0), number(16), version.size, 0, 0};
}

PagedStore::PagedStore(std::shared_ptr<const ObjectStore> objects, uint64_t memory_bytes,
                       std::shared_ptr<const BlockCache> disk, ListFolder list, FindAddress find_address)
    : objects_(std::move(objects)),
      pages_(std::make_shared<PageCache>(memory_bytes)),
      disk_(std::move(disk)),
      list_(std::move(list)),
      find_address_(std::move(find_address)) {}

ObjectAddress PagedStore::address_of(const std::string& url) const {
  return find_address_ ? find_address_(url) : ObjectAddress{url, url};
}

PagedFile PagedStore::paged_file(const std::string& url, const std::string& cached_as, const OpenObject& object) const {
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(url);
  if (known != known_.end() && known->second.version == object.version && key_of(cached_as, object.version)) {
    known->second.file.reader = object.reader;  // credentials of the new one may be valid longer
    return known->second.file;
  }
  auto disk = disk_ ? disk_->object(cached_as, object.version) : nullptr;
  PagedFile file = pages_->add(object.version.size, object.reader, std::move(disk));
  if (known_.size() >= kMaxKnown) known_.clear();
  known_[url] = {object.version, file};
  return file;
}

std::shared_ptr<const OpenFile> PagedStore::open(const std::string& url) const {
  const ObjectAddress address = address_of(url);
  const OpenObject object = objects_->open(address.url, kFirstBytes);
  PagedFile file = paged_file(url, address.cached_as, object);
  pages_->put(file, 0, object.first);
  return std::make_shared<const PagedRemoteFile>(url, object.version, std::move(file), pages_);
}

std::optional<FileVersion> PagedStore::version_of(const std::string& url) const {
  return if_present([&] { return std::optional(fetch::version_of(objects_->open(address_of(url).url, 1).version)); });
}

std::optional<BlockCacheStats> PagedStore::disk_stats() const {
  if (!disk_) return std::nullopt;
  return disk_->stats();
}

}  // namespace atompack::io::fetch
