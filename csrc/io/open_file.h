// Open files, local or remote, and finding them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/byte_source.h"
#include "io/file.h"
#include "io/file_system.h"
#include "io/huge_pages.h"

namespace atompack::io {

// Location of a file or folder: a path in the file system, or a URL and the store that it leads to.
class Store;

class Location {
 public:
  Location() = default;
  Location(std::string path) : path_(std::move(path)) {}  // NOLINT: every path is a location
  Location(const char* path) : path_(path) {}             // NOLINT
  Location(std::string url, std::shared_ptr<const Store> store) : path_(std::move(url)), store_(std::move(store)) {}

  // As given by the user, for errors too; a URL never contains credentials.
  const std::string& path() const { return path_; }
  bool is_remote() const { return store_ != nullptr; }
  const Store& store() const { return *store_; }

  // An entry of this folder.
  Location operator/(std::string_view name) const { return {cat(path_, '/', name), store_}; }
  // Another place in the same store.
  Location at(std::string path) const { return {std::move(path), store_}; }

 private:
  std::string path_;
  std::shared_ptr<const Store> store_;  // nullptr: the local file system
};

// One version of a file, which others may be writing to. While a local file is open, its inode number is not reused: a
// path that has this number now has therefore named this file since it was opened, provided that files are replaced by
// renames and none is renamed back. A remote file is pinned by its ETag: reading a different version is IoError
// (ESTALE). Const methods are thread-safe.
class OpenFile : public ReadableFile, public std::enable_shared_from_this<OpenFile> {
 public:
  // The version at the time of opening.
  virtual const FileVersion& version() const = 0;
  FileIdentity identity() const { return {version().device, version().inode, version().size}; }

  // Its first `length` bytes, which it has. Local files are mapped, unless Access::read or direct says otherwise.
  // `populate` reads a mapping into memory immediately.
  virtual std::unique_ptr<const ByteSource> bytes(uint64_t length, Access access, bool populate = false) const = 0;

  // Reading ahead; see ByteSource.
  virtual int64_t window() const { return 0; }
  virtual void announce(std::span<const ByteRange>) const {}
  virtual bool is_sample_due() const { return false; }
  virtual void sample(std::span<const ByteRange>) const {}
};

// Files behind URLs. Const methods are thread-safe; every failure is an IoError.
class Store {
 public:
  virtual ~Store() = default;

  virtual std::shared_ptr<const OpenFile> open(const std::string& url) const = 0;
  // The version of the file now; nullopt if missing.
  virtual std::optional<FileVersion> version_of(const std::string& url) const = 0;
  // Like names_in() of folder.h. A store has no empty folders: a URL under which there is nothing is ENOENT. A store
  // that cannot list folders is EOPNOTSUPP.
  virtual std::vector<std::string> names_in(const std::string& url) const = 0;
};

// Opens a regular file. Never blocks on local files that are not regular.
std::shared_ptr<const OpenFile> open_file(const Location& location);
// Returns nullptr if there is no file.
std::shared_ptr<const OpenFile> find_file(const Location& location);

// Returns nullopt if there is no file.
std::optional<FileVersion> version_of(const Location& location);
bool exists(const Location& location);
// Names of all entries of a folder, in byte order.
std::vector<std::string> names_in(const Location& folder);
// The same; nullopt if its store cannot list folders.
std::optional<std::vector<std::string>> list_names(const Location& folder);
// The same; if its store cannot list folders, those of the candidates that name a file.
std::vector<std::string> names_among(const Location& folder, std::span<const std::string> candidates);

// The first and last bytes of a file, as many as it has.
std::pair<std::vector<std::byte>, std::vector<std::byte>> read_ends(const OpenFile& file, size_t n_first,
                                                                    size_t n_last);

// Reads a file of limited size. Throws CorruptFileError if it has more than `max_bytes` bytes.
std::vector<std::byte> read_whole(const OpenFile& file, uint64_t max_bytes);
TemporaryBytes read_temporarily(const OpenFile& file, uint64_t max_bytes);
std::vector<std::byte> read_whole(const Location& location, uint64_t max_bytes);

}  // namespace atompack::io
