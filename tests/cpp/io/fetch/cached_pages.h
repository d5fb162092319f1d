// Objects whose bytes follow from their name and version, and a look at what a cache has of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fork.h"
#include "io/fetch/block_cache.h"
#include "io/fetch/group_file.h"
#include "io/temporary_folder.h"

namespace atompack::test {

using io::fetch::BlockCache;
using io::fetch::CachedObject;
using io::fetch::kGroupPages;
using io::fetch::kPageBytes;

inline constexpr uint64_t kMiB = 1 << 20;

struct RemoteObject {
  std::string url = "s3://bucket/key";
  io::fetch::ObjectVersion version{.size = 100 * kPageBytes, .etag = "\"1\"", .modified = ""};

  std::vector<std::byte> pages(uint64_t first, uint64_t n) const {
    std::vector<std::byte> bytes(n * kPageBytes);
    for (uint64_t page = first; page < first + n; ++page) {
      std::mt19937_64 random(std::hash<std::string>{}(url + version.etag) + page);
      const uint64_t factor = random() | 1;
      std::byte* to = bytes.data() + (page - first) * kPageBytes;
      for (uint64_t i = 0; i < kPageBytes / 8; ++i) to = store_le(to, (i + 1) * factor);
    }
    bytes.resize(std::min(bytes.size(), version.size - first * kPageBytes));
    return bytes;
  }
  std::vector<std::byte> page(uint64_t number) const { return pages(number, 1); }

  std::shared_ptr<const CachedObject> in(const BlockCache& cache) const { return cache.object(url, version); }
};

enum class Read : uint8_t { absent, good, wrong };

inline Read read(const CachedObject& cached, const RemoteObject& object, uint64_t page) {
  std::vector<std::byte> into(io::fetch::bytes_of_page(object.version.size, page));
  std::byte* const memory = into.data();
  if (!cached.read({&page, 1}, {&memory, 1}).front()) return Read::absent;
  return into == object.page(page) ? Read::good : Read::wrong;
}

// The same through a mapping.
inline Read copy(const CachedObject& cached, const RemoteObject& object, uint64_t page) {
  std::vector<std::byte> into(io::fetch::bytes_of_page(object.version.size, page));
  if (!cached.copy(page * kPageBytes, into)) return Read::absent;
  return into == object.page(page) ? Read::good : Read::wrong;
}

inline void write(const CachedObject& cached, const RemoteObject& object, uint64_t first, uint64_t n = 1) {
  cached.write(first, object.pages(first, n));
}

inline uint64_t count_good(const CachedObject& cached, const RemoteObject& object) {
  uint64_t good = 0;
  for (uint64_t page = 0; page < cached.n_pages(); ++page) {
    const Read got = read(cached, object, page);
    EXPECT_NE(got, Read::wrong) << page;
    EXPECT_NE(copy(cached, object, page), Read::wrong) << page;
    good += got == Read::good ? 1 : 0;
  }
  return good;
}

// Paths of the files with pages, in byte order.
inline std::vector<std::string> group_files(const TemporaryFolder& folder) {
  std::vector<std::string> paths;
  for (const std::string& name : folder.names()) {
    if (name.ends_with(".pages")) paths.push_back(folder / name);
  }
  return paths;
}

}  // namespace atompack::test
