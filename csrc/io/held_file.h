// Files identified by keeping them open.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/file.h"

namespace atompack::io {

// While a file is open, its inode number is not reused. A path that has this inode number now has therefore named this
// file since it was opened, provided that files are replaced by renames and none is renamed back.
class HeldFile {
 public:
  // Returns nullptr if there is no file. Throws IoError.
  static std::shared_ptr<const HeldFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  // The version at the time of opening.
  const FileVersion& version() const { return version_; }
  // Throws CorruptFileError if the file has more than `max_bytes` bytes.
  std::vector<std::byte> read_whole(uint64_t max_bytes) const;

 private:
  HeldFile(UniqueFd fd, std::string path, const FileVersion& version);

  UniqueFd fd_;
  std::string path_;
  FileVersion version_;
};

}  // namespace atompack::io
