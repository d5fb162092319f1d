// A folder that is filled under another name and appears under its own when all of it is there.
#pragma once

#include <cstdint>
#include <string>

#include "io/unique_fd.h"

namespace atompack::io {

// For one thread at a time. Every failure is an IoError that names the path.
class UnpublishedFolder {
 public:
  // An empty folder beside `path`. What a writer that died left there is taken away first. Throws IoError (EEXIST) if
  // something is at `path`, LockedError if another writer is making it.
  explicit UnpublishedFolder(std::string path);
  UnpublishedFolder(const UnpublishedFolder&) = delete;
  UnpublishedFolder& operator=(const UnpublishedFolder&) = delete;
  // What was not published goes away; not in a forked child, whose parent still has it.
  ~UnpublishedFolder();

  const std::string& path() const { return path_; }
  const std::string& present_path() const { return present_path_; }
  int64_t owner() const { return owner_; }

  // Where a file or folder of this name lies now.
  std::string inside(const std::string& name) const { return present_path_ + "/" + name; }
  void make_folder(const std::string& name);
  void rename(const std::string& from, const std::string& to);

  // Gives the folder its name, durably. What lies in it must be synced; names in its folders are synced here.
  void publish();

 private:
  std::string path_, present_path_;
  UniqueFd fd_;
  bool is_published_ = false;
  int64_t owner_;  // the process that made it
};

}  // namespace atompack::io
