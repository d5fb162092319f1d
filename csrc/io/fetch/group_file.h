// Files of a block cache: a group of pages of one object each. FORMAT.md describes the bytes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "io/fetch/group_id.h"
#include "io/fetch/page.h"
#include "io/process_fd.h"

namespace atompack::io::fetch {

// Mapping of a file of which other processes may write, free or remove pages.
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

inline constexpr size_t kGroupPages = 16384;  // 64 MiB

// An open file. Pages are numbered from the start of the group. Other processes may read and write the file too, or
// remove it, after which its pages are absent. Thread-safe.
class GroupFile {
 public:
  // Returns nullptr if there is no valid file, or another process is just making or removing it. Never waits. Throws
  // IoError for failures of the system.
  static std::shared_ptr<const GroupFile> open(const std::string& folder, const GroupId& group);
  // Makes a file for `n_pages` pages if missing, and empties one that is not valid. Returns nullptr only if
  // another process is just making or removing it, or something else than a file has its name.
  static std::shared_ptr<const GroupFile> open_or_create(const std::string& folder, const GroupId& group,
                                                         size_t n_pages);

  // Counts the pages that are marked as present in a file, without a lock; 0 if there is no valid file. Throws IoError.
  static size_t count_stored(const std::string& folder, const GroupId& group);

  enum class Wait : uint8_t { yes, no };
  enum class Answer : uint8_t { good, absent, damaged, would_wait };
  // Reads a page; `into` has its exact size and is undefined unless the answer is `good`. A damaged page is absent
  // from then on. Without waiting, a page that is not in the kernel's cache is left there. Throws IoError.
  Answer read(size_t page, std::span<std::byte> into, Wait wait) const;

  // Copies bytes of a page of `page_bytes` through a mapping, which costs a tenth of read() but may wait for the disk.
  // Returns false if the page is absent or damaged, or the file is not mapped: read() reports which.
  bool copy(size_t page, size_t page_bytes, size_t from, std::span<std::byte> into) const;

  // True if copy() will find the page, unless it is damaged.
  bool is_mapped(size_t page) const;

  // True if reading a page would not wait for the disk.
  bool is_in_memory(size_t page) const;

  // False if the file was overwritten or truncated: it must be opened again.
  bool has_valid_header() const;

  // False if the file was removed, so that nobody would find what is written to it. Throws IoError.
  bool has_name() const;

  // Writes successive pages, all but the last of which have kPageBytes. Returns the disk space taken in addition to
  // that of the pages, as far as this process knows. Throws IoError.
  uint64_t write(size_t first_page, Bytes pages) const;

  // Finds the pages in an ascending list that are marked as present, which read() may still find damaged. Throws
  // IoError.
  std::vector<bool> find(std::span<const size_t> pages) const;

  // Hint: starts reading a page from the disk into the kernel's cache.
  void will_need(size_t page) const;

  // Sets the time of the last use to now, at most every few seconds, and then returns false if another program has
  // removed the file or destroyed its header: it must be opened again. Throws IoError.
  bool touch() const;

  bool is_writable() const { return is_writable_; }

 private:
  GroupFile(ProcessFd fd, std::string path, const GroupId& group, bool is_writable);
  static std::shared_ptr<const GroupFile> make(UniqueFd fd, const std::string& path, const GroupId& group,
                                               bool is_writable);

  uint32_t checksum_of_page(size_t page, Bytes bytes) const;
  uint64_t charge_table(uint64_t offset, size_t n_bytes) const;
  void mark_absent(size_t page) const;

  ProcessFd fd_;
  PageMapping mapping_;
  std::string path_;
  GroupId group_;
  uint32_t checksum_of_key_;
  bool is_writable_;
  mutable std::atomic<int64_t> touched_;       // seconds of a steady clock
  mutable std::atomic<uint64_t> charged_ = 0;  // bit i: block i of the table was charged
  // Checksums of pages that were read before; 0 if unknown.
  mutable std::array<std::atomic<uint32_t>, kGroupPages> known_{};
};

}  // namespace atompack::io::fetch
