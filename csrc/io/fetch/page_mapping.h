// Mapping of a file of which other processes may write, free or remove pages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atompack::io::fetch {

class PageMapping {
 public:
  // Maps a file; empty if its file system may be shared with other machines, where a file that is removed there would
  // end this process, or if it cannot be mapped.
  explicit PageMapping(int fd);
  PageMapping(const PageMapping&) = delete;
  PageMapping& operator=(const PageMapping&) = delete;
  ~PageMapping();

  // The mapped file, which changes while others write; nullptr if it has less than `n` bytes now.
  const std::byte* find(int fd, uint64_t n) const;

 private:
  const std::byte* first_ = nullptr;
  uint64_t length_ = 0;
};

// Frees the disk space of a file, if possible. Those who have mapped it see zeros, and its size may stay.
void free_all_pages(int fd);

}  // namespace atompack::io::fetch
