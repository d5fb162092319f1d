// The folder of a block cache: its files, their use of space, and their removal.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "io/fetch/group_id.h"

namespace atompack::io::fetch {

// Times are seconds since 1970.
struct CacheUsage {
  uint64_t bytes = 0;  // of disk space
  uint64_t files = 0;
  uint64_t pages = 0;
  uint64_t objects = 0;
  std::optional<int64_t> oldest_use;
  std::optional<int64_t> newest_use;
};

// Makes a folder for this user alone, and its parents, if it does not exist. Throws IoError.
void make_cache_folder(const std::string& folder);

// Adds up the files of a cache; others in the folder do not count. Throws IoError.
CacheUsage usage_of(const std::string& folder);

struct Eviction {
  uint64_t bytes_left = 0;
  uint64_t bytes_removed = 0;
};

// If the files of a cache take more than `max_bytes`, removes those used longest ago until they take at most
// `target_bytes`. `close` makes this process close one first. Throws IoError.
Eviction evict(const std::string& folder, uint64_t max_bytes, uint64_t target_bytes,
               const std::function<void(const GroupId&)>& close);

}  // namespace atompack::io::fetch
