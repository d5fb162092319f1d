// A file of random bytes in a cache of pages.
#pragma once

#include <future>
#include <memory>
#include <vector>

#include "io/fetch/fake_reader.h"
#include "io/fetch/page_cache.h"

namespace atompack::test {

inline constexpr uint64_t kPage = io::fetch::kPageBytes;

inline std::vector<std::byte> read(io::fetch::PageCache& cache, const io::fetch::PagedFile& file, uint64_t offset,
                                   uint64_t n) {
  std::vector<std::byte> into(n);
  cache.read(file, offset, into);
  return into;
}

inline std::vector<std::byte> part(const std::vector<std::byte>& bytes, uint64_t offset, uint64_t n) {
  const Bytes found = Bytes(bytes).subspan(offset, n);
  return {found.begin(), found.end()};
}

// A cache with one file of `n_bytes` random bytes.
template <typename Reader>
struct CachedFile {
  template <typename... Options>
  explicit CachedFile(uint64_t n_bytes, uint64_t max_pages, const Options&... options)
      : reader(std::make_shared<const Reader>(random_bytes(n_bytes), options...)),
        cache(max_pages * io::fetch::kPageBytes),
        file(cache.add(n_bytes, reader, nullptr)) {}

  void announce(std::vector<io::ByteRange> ranges) { cache.announce(file, ranges); }
  std::vector<std::byte> read(uint64_t offset, uint64_t n) { return test::read(cache, file, offset, n); }
  std::vector<std::byte> expected(uint64_t offset, uint64_t n) const { return part(reader->object(), offset, n); }
  std::future<std::vector<std::byte>> start_reading(uint64_t offset, uint64_t n) {
    return std::async(std::launch::async, [this, offset, n] { return read(offset, n); });
  }
  // Reads that are answered as they come.
  std::vector<std::byte> read_answered(uint64_t offset, uint64_t n) {
    auto result = start_reading(offset, n);
    while (result.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) reader->answer_all();
    return result.get();
  }

  std::shared_ptr<const Reader> reader;
  io::fetch::PageCache cache;
  io::fetch::PagedFile file;
};

using HeldFile = CachedFile<HeldReader>;

}  // namespace atompack::test
