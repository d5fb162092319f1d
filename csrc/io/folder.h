// Listing of folders, and making their names durable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/unique_fd.h"

namespace atompack::io {

// Names of the folders in this one, including hidden ones and links to folders, in byte order.
std::vector<std::string> folders_in(const std::string& path);
// Names of all entries, in byte order.
std::vector<std::string> names_in(const std::string& path);

// Removes a folder if it is empty.
void remove_if_empty(const std::string& path);

// Makes the current names in a folder durable.
void sync_folder(const std::string& path);
// Makes the current names in the parent folder of this path durable.
void sync_folder_of(const std::string& path);

// Staging: files are written under a hidden name and renamed into place.

// Suffix of files and folders that are not published yet.
inline constexpr std::string_view kStagingSuffix = ".new";

// Hidden name next to the path, the same for every writer of it, so that its lock excludes them from each other.
std::string unpublished_path(const std::string& path);

// Throws IoError (EEXIST) if the target exists; returns false if the file system has no exclusive rename.
bool rename_exclusively(const std::string& from, const std::string& to);

// Makes each path name what the other one named, in one step. IoError (EINVAL) if the file system cannot do that.
void exchange_names(const std::string& one, const std::string& other);

// Lock of a folder that one writer at a time may change.

// Advisory lock (flock) on the folder itself, so that no lock file is left behind. It ends with the process.
class LockedFolder {
 public:
  // Throws LockedError if another writer holds the lock, IoError (ENOENT, ENOTDIR) if `path` is not a folder.
  explicit LockedFolder(const std::string& path);
  // Releases the lock immediately, even if a forked child still holds the descriptor; does nothing in that child.
  ~LockedFolder();

 private:
  UniqueFd fd_;
  int64_t owner_;  // process that locked the folder
};

// Locks an open file or folder for a writer of `path`. Throws LockedError, which says `problem`, if another writer has
// locked it.
void lock_for_writing(int fd, const std::string& path, std::string_view problem);
// False for a file or folder that was renamed or replaced between opening and locking: its lock is then not the lock of
// the path.
bool is_still_at(int fd, const std::string& path);

// Folder that is filled under a hidden name and renamed when it is complete.
enum class Existing : uint8_t { refuse, replace };

// For one thread at a time. Every failure is an IoError that names the path.
class UnpublishedFolder {
 public:
  // Creates an empty folder next to `path`, after removing what a writer that died left there. Throws IoError (EEXIST)
  // if `path` exists and is not to be replaced, LockedError if another writer is creating or replacing it.
  explicit UnpublishedFolder(std::string path, Existing existing = Existing::refuse);
  // Removes an unpublished folder, except in a forked child, whose parent still owns it.
  ~UnpublishedFolder();

  const std::string& path() const { return path_; }
  const std::string& present_path() const { return present_path_; }
  int64_t owner() const { return owner_; }
  // True if there is a folder at `path`, which publish() replaces.
  bool replaces() const { return replaced_.has_value(); }

  // The current path of a file or folder of this name.
  std::string inside(const std::string& name) const { return present_path_ + "/" + name; }
  void make_folder(const std::string& name);
  void rename(const std::string& from, const std::string& to);

  // Adds everything in the folder at `path` that has no counterpart here: files as hard links.
  void link_replaced_files();

  // Renames the folder to its final path, durably. Files in it must be synced; their names are synced here. A folder
  // that it replaces is exchanged with it in one step, and then removed: there is always one of the two at `path`.
  void publish();

 private:
  void exchange();

  std::string path_, present_path_;
  UniqueFd fd_;
  std::optional<LockedFolder> replaced_;
  bool is_published_ = false;
  int64_t owner_;  // process that created the folder
};

}  // namespace atompack::io
