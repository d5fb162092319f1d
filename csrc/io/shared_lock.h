// Shared locks of files, which keep writers away that lock a file for themselves (flock).
#pragma once

#include <string>

#include "io/file.h"

namespace atompack::io {

// A file system without locks is no reason to refuse a file.
class SharedLock {
 public:
  // Throws IoError if the file at the path has another identity or is locked by a writer.
  SharedLock(const std::string& path, const FileIdentity& identity);
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;
  ~SharedLock();

 private:
  UniqueFd fd_;
};

}  // namespace atompack::io
