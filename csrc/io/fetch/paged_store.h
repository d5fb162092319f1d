// Store of remote files that are read by pages, kept in memory and on local disk.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "io/fetch/block_cache.h"
#include "io/fetch/page_cache.h"
#include "io/fetch/range_reader.h"
#include "io/open_file.h"

namespace atompack::io::fetch {

// Names of the entries of a folder; see Store::names_in().
using ListFolder = std::function<std::vector<std::string>(const std::string& url)>;

// Address of the object of a URL for requests, and the name under which the block cache keeps it. The URL of the store
// itself may be shown in messages; the address may hold secrets in its query.
struct ObjectAddress {
  std::string url, cached_as;
};
using FindAddress = std::function<ObjectAddress(const std::string& url)>;

class PagedStore final : public Store {
 public:
  // `memory_bytes` limits the pages in memory. `disk` may be null. Without `find_address` the URLs are the addresses.
  PagedStore(std::shared_ptr<const ObjectStore> objects, uint64_t memory_bytes, std::shared_ptr<const BlockCache> disk,
             ListFolder list, FindAddress find_address = nullptr);

  std::shared_ptr<const OpenFile> open(const std::string& url) const override;
  std::optional<FileVersion> version_of(const std::string& url) const override;
  std::vector<std::string> names_in(const std::string& url) const override { return list_(url); }

  PageCacheStats stats() const { return pages_->stats(); }
  std::optional<BlockCacheStats> disk_stats() const;

 private:
  struct Known {
    ObjectVersion version;
    PagedFile file;
  };

  ObjectAddress address_of(const std::string& url) const;
  PagedFile paged_file(const std::string& url, const std::string& cached_as, const OpenObject& object) const;

  std::shared_ptr<const ObjectStore> objects_;
  std::shared_ptr<PageCache> pages_;
  std::shared_ptr<const BlockCache> disk_;
  ListFolder list_;
  FindAddress find_address_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Known> known_;  // by URL, so that reopening a file finds its pages
};

// Changes with the ETag or, without one, with date or size.
FileVersion version_of(const ObjectVersion& version);

}  // namespace atompack::io::fetch
