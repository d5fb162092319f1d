// Files identified by being kept open.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/file.h"

namespace atompack::io {

// As long as a file is open, no other file gets its number. So a path that leads to this number now has led to this
// file ever since it was opened there, provided that files replace each other by renames and none comes back.
class HeldFile {
 public:
  // Nothing where there is no file. Throws IoError.
  static std::shared_ptr<const HeldFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  // The version at the time of opening.
  const FileVersion& version() const { return version_; }
  // Throws CorruptFileError if the file has more than `most` bytes.
  std::vector<std::byte> read_whole(uint64_t most) const;

 private:
  HeldFile(UniqueFd fd, std::string path, const FileVersion& version);

  UniqueFd fd_;
  std::string path_;
  FileVersion version_;
};

}  // namespace atompack::io
