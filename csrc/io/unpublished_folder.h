// Folder that is filled under a hidden name and renamed when it is complete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/locked_folder.h"
#include "io/unique_fd.h"

namespace atompack::io {

enum class Existing : uint8_t { refuse, replace };

// For one thread at a time. Every failure is an IoError that names the path.
class UnpublishedFolder {
 public:
  // Creates an empty folder beside `path`, after removing what a writer that died left there. Throws IoError (EEXIST)
  // if `path` exists and is not to be replaced, LockedError if another writer is creating or replacing it.
  explicit UnpublishedFolder(std::string path, Existing existing = Existing::refuse);
  UnpublishedFolder(const UnpublishedFolder&) = delete;
  UnpublishedFolder& operator=(const UnpublishedFolder&) = delete;
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
