#include "io/open_file.h"

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "io/folder.h"
#include "io/local_file.h"

namespace atompack::io {

std::shared_ptr<const OpenFile> open_file(const Location& location) {
  if (location.is_remote()) return location.store().open(location.path());
  return std::make_shared<const LocalFile>(location.path());
}

std::shared_ptr<const OpenFile> find_file(const Location& location) {
  try {
    return open_file(location);
  } catch (const IoError& error) {
    if (error.code() != ENOENT) throw;
    return nullptr;
  }
}

std::optional<FileVersion> version_of(const Location& location) {
  return location.is_remote() ? location.store().version_of(location.path()) : version_of(location.path());
}

bool exists(const Location& location) {
  return location.is_remote() ? location.store().version_of(location.path()).has_value() : exists(location.path());
}

std::vector<std::string> names_in(const Location& folder) {
  return folder.is_remote() ? folder.store().names_in(folder.path()) : names_in(folder.path());
}

std::vector<std::byte> read_whole(const OpenFile& file, uint64_t max_bytes) {
  const uint64_t size = file.size();
  if (size > max_bytes) {
    throw CorruptFileError(cat("size: expected at most ", max_bytes, " bytes, got ", size)).in_file(file.path());
  }
  std::vector<std::byte> bytes(size);
  bytes.resize(file.read_at(0, bytes));
  return bytes;
}

std::vector<std::byte> read_whole(const Location& location, uint64_t max_bytes) {
  return read_whole(*open_file(location), max_bytes);
}

}  // namespace atompack::io
