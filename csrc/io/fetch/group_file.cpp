#include "io/fetch/group_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "codec/checksums.h"
#include "io/file.h"
#include "io/read_ahead.h"

namespace atompack::io::fetch {
namespace {

// File systems of this machine alone, which can free the pages of a file that is mapped: ext4, xfs, btrfs, overlayfs.
// From linux/magic.h, which lacks that of xfs. Not tmpfs: reading a hole takes memory there, and fails by a signal if
// there is none.
constexpr std::array<uint32_t, 4> kLocalSystems{0xEF53, 0x58465342, 0x9123683E, 0x794C7630};

bool is_local(int fd) {
  struct statfs system{};
  if (::fstatfs(fd, &system) != 0) return false;
  return std::ranges::find(kLocalSystems, static_cast<uint32_t>(system.f_type)) != kLocalSystems.end();
}

}  // namespace

PageMapping::PageMapping(int fd) {
  struct stat status{};
  if (!is_local(fd) || ::fstat(fd, &status) != 0 || status.st_size <= 0) return;
  const auto length = static_cast<size_t>(status.st_size);
  void* const address = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return;
  // Pages are read in any order; those that a reader announces are read ahead one by one.
  static_cast<void>(::madvise(address, length, MADV_RANDOM));
  static_cast<void>(::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM));
  first_ = static_cast<const std::byte*>(address);
  length_ = length;
}

PageMapping::~PageMapping() {
  if (length_ > 0) ::munmap(const_cast<std::byte*>(first_), length_);
}

const std::byte* PageMapping::find(int fd, uint64_t n) const {
  struct stat status{};
  if (n > length_ || ::fstat(fd, &status) != 0 || static_cast<uint64_t>(status.st_size) < n) return nullptr;
  return first_;
}

void free_all_pages(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0 || status.st_size == 0) return;
  if (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, status.st_size) == 0) return;
  if (!is_local(fd)) static_cast<void>(::ftruncate(fd, 0));  // nobody has mapped it
}

namespace {

constexpr std::string_view kMagic = "APTPAGES";
constexpr uint32_t kVersion = 1;
constexpr uint32_t kPresent = 0x45474150;
constexpr size_t kHeaderBytes = 64;
constexpr size_t kEntryBytes = 8;
constexpr uint64_t kPagesAt = 33 * kPageBytes;  // after the header and the table
constexpr std::chrono::seconds kTouchEvery{2};
static_assert(kHeaderBytes + kEntryBytes * kGroupPages <= kPagesAt);

using Header = std::array<std::byte, kHeaderBytes>;

uint64_t place_of_entry(size_t page) { return kHeaderBytes + kEntryBytes * page; }
uint64_t place_of_page(size_t page) { return kPagesAt + uint64_t{kPageBytes} * page; }

Header header_of(const GroupId& group) {
  Header header{};
  std::byte* to = store(header.data(), as_bytes(kMagic));
  to = store_le(to, kVersion);
  to = store_le(to, static_cast<uint32_t>(kPageBytes));
  for (const uint64_t word : group.object) to = store_le(to, word);
  to = store_le(to, group.number);
  store_le(to, codec::crc32c({header.data(), to}));
  return header;
}

uint32_t checksum_of(const ObjectKey& key) { return codec::crc32c(std::as_bytes(std::span(key))); }

enum class Locked : uint8_t { yes, no, removed };

// Never waits. `removed`: the lock is that of a file that no longer has a name.
Locked lock(int fd, int kind, const std::string& path) {
  while (::flock(fd, kind | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Locked::no;
    if (errno != EINTR) throw_errno(path);
  }
  struct stat status{};
  if (::fstat(fd, &status) != 0) throw_errno(path);
  return status.st_nlink > 0 ? Locked::yes : Locked::removed;
}

int64_t steady_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Empty if something else than a file has this name, or, without O_CREAT, nothing has it.
UniqueFd open_file(const std::string& path, int flags) {
  constexpr int kMode = 0600;  // datasets may be private
  UniqueFd fd(::open(path.c_str(), O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | flags, kMode));
  if (!fd) {
    const bool is_absent = errno == ENOENT && (flags & O_CREAT) == 0;
    if (is_absent || errno == EISDIR || errno == ELOOP || errno == ENXIO) return {};
    throw_errno(path);
  }
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) throw_errno(path);
  return S_ISREG(status.st_mode) ? std::move(fd) : UniqueFd();
}

// Returns false if that would wait for the disk, or the file system cannot tell, or the file ends before.
bool read_if_cached(int fd, uint64_t offset, std::span<std::byte> into) {
  const iovec memory{into.data(), into.size()};
  return ::preadv2(fd, &memory, 1, static_cast<off_t>(offset), RWF_NOWAIT) == static_cast<ssize_t>(into.size());
}

bool has_header(int fd, const Header& expected, const std::string& path) {
  Header header{};
  return read_at(fd, 0, header, path) == header.size() && header == expected;
}

// Requires the exclusive lock.
void make_valid(int fd, const Header& header, size_t n_pages, const std::string& path) {
  const auto set_size = [&](uint64_t size) {
    while (::ftruncate(fd, static_cast<off_t>(size)) != 0) {
      if (errno != EINTR) throw_errno(path);
    }
  };
  free_all_pages(fd);
  set_size(place_of_page(n_pages));  // now, because file systems reserve space for files that grow
  write_at(fd, 0, header, path);
}

}  // namespace

std::shared_ptr<const GroupFile> GroupFile::open(const std::string& folder, const GroupId& group) {
  const std::string path = cat(folder, '/', file_name(group));
  const Header header = header_of(group);
  bool is_writable = true;
  UniqueFd fd;
  try {
    fd = open_file(path, O_RDWR);
  } catch (const IoError& error) {
    if (error.code() != EACCES && error.code() != EROFS && error.code() != EPERM) throw;
    is_writable = false;
    fd = open_file(path, O_RDONLY);
  }
  if (!fd || lock(fd.get(), LOCK_SH, path) != Locked::yes || !has_header(fd.get(), header, path)) return nullptr;
  return make(std::move(fd), path, group, is_writable);
}

size_t GroupFile::count_stored(const std::string& folder, const GroupId& group) {
  const std::string path = cat(folder, '/', file_name(group));
  const UniqueFd fd = open_file(path, O_RDONLY);
  if (!fd || !has_header(fd.get(), header_of(group), path)) return 0;
  std::vector<std::byte> table(kEntryBytes * kGroupPages);
  const size_t n_entries = read_at(fd.get(), kHeaderBytes, table, path) / kEntryBytes;
  size_t n_stored = 0;
  for (size_t page = 0; page < n_entries; ++page) {
    n_stored += load_le<uint32_t>(table.data() + kEntryBytes * page + sizeof(uint32_t)) == kPresent ? 1 : 0;
  }
  return n_stored;
}

std::shared_ptr<const GroupFile> GroupFile::open_or_create(const std::string& folder, const GroupId& group,
                                                           size_t n_pages) {
  const std::string path = cat(folder, '/', file_name(group));
  const Header header = header_of(group);
  // Twice, since another process may remove the file before it is locked.
  for (int attempt = 0; attempt < 2; ++attempt) {
    UniqueFd fd = open_file(path, O_RDWR | O_CREAT);
    if (!fd) return nullptr;
    Locked locked = lock(fd.get(), LOCK_SH, path);
    if (locked == Locked::yes && !has_header(fd.get(), header, path)) {
      locked = lock(fd.get(), LOCK_EX, path);
      if (locked == Locked::yes && !has_header(fd.get(), header, path)) {
        make_valid(fd.get(), header, n_pages, path);
      }
      // Another process may get the lock in between.
      if (locked == Locked::yes) locked = lock(fd.get(), LOCK_SH, path);
    }
    if (locked == Locked::no) return nullptr;
    if (locked == Locked::yes) return make(std::move(fd), path, group, true);
  }
  return nullptr;
}

std::shared_ptr<const GroupFile> GroupFile::make(UniqueFd fd, const std::string& path, const GroupId& group,
                                                 bool is_writable) {
  ::flock(fd.get(), LOCK_UN);
  ProcessFd owned(std::move(fd));
  if (!owned) return nullptr;
  return std::shared_ptr<const GroupFile>(new GroupFile(std::move(owned), path, group, is_writable));
}

GroupFile::GroupFile(ProcessFd fd, std::string path, const GroupId& group, bool is_writable)
    : fd_(std::move(fd)),
      mapping_(fd_.get()),
      path_(std::move(path)),
      group_(group),
      checksum_of_key_(checksum_of(group.object)),
      is_writable_(is_writable),
      touched_(steady_seconds() - kTouchEvery.count()) {}

GroupFile::Answer GroupFile::read(size_t page, std::span<std::byte> into, Wait wait) const {
  uint32_t checksum = known_[page].load(std::memory_order_relaxed);
  if (checksum == 0) {
    std::array<std::byte, kEntryBytes> entry{};
    if (read_at(fd_.get(), place_of_entry(page), entry, path_) != entry.size()) return Answer::absent;
    if (load_le<uint32_t>(entry.data() + 4) != kPresent) return Answer::absent;
    checksum = load_le<uint32_t>(entry.data());
  }
  if (wait == Wait::no && !read_if_cached(fd_.get(), place_of_page(page), into)) return Answer::would_wait;
  if ((wait == Wait::no || read_at(fd_.get(), place_of_page(page), into, path_) == into.size()) &&
      checksum_of_page(page, into) == checksum) {
    known_[page].store(checksum, std::memory_order_relaxed);
    return Answer::good;
  }
  known_[page].store(0, std::memory_order_relaxed);
  mark_absent(page);
  return Answer::damaged;
}

bool GroupFile::copy(size_t page, size_t page_bytes, size_t from, std::span<std::byte> into) const {
  const std::byte* const group = mapping_.find(fd_.get(), place_of_page(page) + page_bytes);
  if (group == nullptr) return false;
  const std::byte* const entry = group + place_of_entry(page);
  if (load_le<uint32_t>(entry + 4) != kPresent) return false;
  std::array<std::byte, kPageBytes> copied;  // checked afterwards, because others may free the page in the meantime
  std::memcpy(copied.data(), group + place_of_page(page), page_bytes);
  const Bytes bytes(copied.data(), page_bytes);
  if (checksum_of_page(page, bytes) != load_le<uint32_t>(entry)) return false;
  store(into.data(), bytes.subspan(from, into.size()));
  return true;
}

bool GroupFile::is_mapped(size_t page) const {
  const std::byte* const group = mapping_.find(fd_.get(), place_of_page(page) + 1);
  return group != nullptr && load_le<uint32_t>(group + place_of_entry(page) + 4) == kPresent;
}

bool GroupFile::is_in_memory(size_t page) const { return io::is_in_memory(fd_.get(), place_of_page(page)); }

bool GroupFile::has_valid_header() const { return has_header(fd_.get(), header_of(group_), path_); }

bool GroupFile::has_name() const {
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0) throw_errno(path_);
  return status.st_nlink > 0;
}

uint64_t GroupFile::write(size_t first_page, Bytes pages) const {
  std::vector<std::byte> entries;
  for (size_t at = 0, page = first_page; at < pages.size(); at += kPageBytes, ++page) {
    entries.resize(entries.size() + kEntryBytes);
    std::byte* const entry = entries.data() + entries.size() - kEntryBytes;
    store_le(entry, checksum_of_page(page, pages.subspan(at, std::min(kPageBytes, pages.size() - at))));
    store_le(entry + 4, kPresent);
  }
  write_at(fd_.get(), place_of_page(first_page), pages, path_);
  write_at(fd_.get(), place_of_entry(first_page), entries, path_);
  return charge_table(place_of_entry(first_page), entries.size());
}

// The block of the header counts with the first page, and a block of the table with the first entry in it.
uint64_t GroupFile::charge_table(uint64_t offset, size_t n_bytes) const {
  uint64_t blocks = 1;
  for (uint64_t i = offset / kPageBytes; i <= (offset + n_bytes - 1) / kPageBytes; ++i) blocks |= uint64_t{1} << i;
  const uint64_t before = charged_.fetch_or(blocks, std::memory_order_relaxed);
  return kPageBytes * static_cast<uint64_t>(std::popcount(blocks & ~before));
}

std::vector<bool> GroupFile::find(std::span<const size_t> pages) const {
  std::vector<bool> found(pages.size());
  for (size_t i = 0; i < pages.size(); ++i) found[i] = known_[pages[i]].load(std::memory_order_relaxed) != 0;
  const auto first_unknown = static_cast<size_t>(std::ranges::find(found, false) - found.begin());
  if (first_unknown == pages.size()) return found;
  const size_t first = pages[first_unknown];
  std::vector<std::byte> entries(kEntryBytes * (pages.back() - first + 1));
  read_at(fd_.get(), place_of_entry(first), entries, path_);  // zeros after the end of a file that was cut
  for (size_t i = first_unknown; i < pages.size(); ++i) {
    if (!found[i]) found[i] = load_le<uint32_t>(entries.data() + kEntryBytes * (pages[i] - first) + 4) == kPresent;
  }
  return found;
}

void GroupFile::will_need(size_t page) const {
  static_cast<void>(
      ::posix_fadvise(fd_.get(), static_cast<off_t>(place_of_page(page)), off_t{kPageBytes}, POSIX_FADV_WILLNEED));
}

bool GroupFile::touch() const {
  const int64_t now = steady_seconds();
  if (now - touched_.load(std::memory_order_relaxed) < kTouchEvery.count()) return true;
  touched_.store(now, std::memory_order_relaxed);
  static_cast<void>(::futimens(fd_.get(), nullptr));  // not possible in a read-only folder
  return has_name() && has_valid_header();
}

uint32_t GroupFile::checksum_of_page(size_t page, Bytes bytes) const {
  const uint64_t number = group_.number * kGroupPages + page;
  return codec::crc32c(bytes, codec::crc32c(std::as_bytes(std::span(&number, 1)), checksum_of_key_));
}

void GroupFile::mark_absent(size_t page) const {
  if (!is_writable_) return;
  constexpr std::array<std::byte, kEntryBytes> kAbsent{};
  [[maybe_unused]] const ssize_t written =
      ::pwrite(fd_.get(), kAbsent.data(), kAbsent.size(), static_cast<off_t>(place_of_entry(page)));
}

}  // namespace atompack::io::fetch
