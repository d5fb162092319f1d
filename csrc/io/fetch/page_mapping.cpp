#include "io/fetch/page_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>

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

}  // namespace atompack::io::fetch
