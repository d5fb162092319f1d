#include "io/fetch/cache_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>
#include <vector>

#include "io/fetch/group_file.h"
#include "io/file.h"
#include "io/folder.h"
#include "io/process_fd.h"

namespace atompack::io::fetch {
namespace {

struct StoredGroup {
  GroupId id;
  uint64_t bytes;
  int64_t seconds, nanoseconds;  // of its last use
};

std::vector<StoredGroup> groups_in(const std::string& folder) {
  constexpr uint64_t kBlockBytes = 512;  // unit of st_blocks
  std::vector<StoredGroup> groups;
  for (const std::string& name : names_in(folder)) {
    const auto id = parse_file_name(name);
    struct stat status{};
    if (!id || ::lstat(cat(folder, '/', name).c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    groups.push_back(
        {*id, kBlockBytes * static_cast<uint64_t>(status.st_blocks), status.st_mtim.tv_sec, status.st_mtim.tv_nsec});
  }
  return groups;
}

// Frees the space, though processes may have the file open. Returns false for a file that is being made.
bool remove_group(const std::string& path) {
  // Not inherited by forks, which would hold its lock.
  const ProcessFd fd(UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)));
  if (!fd) return errno == ENOENT;
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return false;
  const bool is_removed = ::unlink(path.c_str()) == 0 || errno == ENOENT;
  if (is_removed) free_all_pages(fd.get());
  ::flock(fd.get(), LOCK_UN);
  return is_removed;
}

}  // namespace

void make_cache_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) return;
  if (errno == ENOENT) {
    // The last one apart, since parents may be for other users too.
    std::filesystem::path parent = std::filesystem::path(folder).lexically_normal();
    if (!parent.has_filename()) parent = parent.parent_path();  // it ended with a slash
    parent = parent.parent_path();
    std::error_code error;
    std::filesystem::create_directories(parent, error);
    if (error) throw IoError(error.value(), error.message(), folder);
    if (::mkdir(folder.c_str(), 0700) == 0) return;
  }
  if (errno != EEXIST) throw_errno(folder);
  struct stat status{};
  if (::stat(folder.c_str(), &status) != 0) throw_errno(folder);
  if (!S_ISDIR(status.st_mode)) throw IoError(ENOTDIR, std::strerror(ENOTDIR), folder);
}

CacheUsage usage_of(const std::string& folder) {
  CacheUsage usage;
  std::set<ObjectKey> objects;
  for (const StoredGroup& group : groups_in(folder)) {
    usage.bytes += group.bytes;
    usage.files += 1;
    usage.pages += GroupFile::count_stored(folder, group.id);
    objects.insert(group.id.object);
    usage.oldest_use = std::min(usage.oldest_use.value_or(group.seconds), group.seconds);
    usage.newest_use = std::max(usage.newest_use.value_or(group.seconds), group.seconds);
  }
  usage.objects = objects.size();
  return usage;
}

Eviction evict(const std::string& folder, uint64_t max_bytes, uint64_t target_bytes,
               const std::function<void(const GroupId&)>& close) {
  std::vector<StoredGroup> groups = groups_in(folder);
  Eviction result;
  for (const StoredGroup& group : groups) result.bytes_left += group.bytes;
  if (result.bytes_left <= max_bytes) return result;
  std::ranges::sort(groups, {}, [](const StoredGroup& group) { return std::tuple(group.seconds, group.nanoseconds); });
  for (const StoredGroup& group : groups) {
    if (result.bytes_left <= target_bytes) break;
    close(group.id);
    if (!remove_group(cat(folder, '/', file_name(group.id)))) continue;
    result.bytes_left -= group.bytes;
    result.bytes_removed += group.bytes;
  }
  return result;
}

}  // namespace atompack::io::fetch
