#include "io/memory_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"
#include "io/local_file.h"

namespace atompack::io {
namespace {

[[noreturn]] void fail_missing(const std::string& name) { throw IoError(ENOENT, std::strerror(ENOENT), name); }

// The same in every process, for snapshots that are pickled together with the bytes.
FileVersion version_in_memory(Bytes bytes) { return {0, 0, bytes.size(), 0, 0}; }

class MemoryFile final : public OpenFile {
 public:
  MemoryFile(std::string name, OwnedBytes contents)
      : name_(std::move(name)), contents_(std::move(contents)), version_(version_in_memory(contents_.bytes)) {}

  const std::string& path() const override { return name_; }
  uint64_t size() const override { return contents_.bytes.size(); }
  const FileVersion& version() const override { return version_; }

  size_t read_at(uint64_t offset, std::span<std::byte> into) const override {
    if (offset >= size()) return 0;
    const Bytes rest = contents_.bytes.subspan(offset);
    const Bytes found = rest.first(std::min(into.size(), rest.size()));
    std::ranges::copy(found, into.begin());
    return found.size();
  }

  std::unique_ptr<const ByteSource> bytes(uint64_t length, Access, bool) const override {
    check_file_length(*this, length);
    return std::make_unique<const MemoryBytes>(contents_.bytes.first(length), name_, contents_.owner);
  }

 private:
  std::string name_;
  OwnedBytes contents_;
  FileVersion version_;
};

}  // namespace

std::shared_ptr<const OpenFile> MemoryStore::open(const std::string& name) const {
  const auto found = files_.find(name);
  if (found == files_.end()) fail_missing(name);
  return std::make_shared<const MemoryFile>(name, found->second);
}

std::optional<FileVersion> MemoryStore::version_of(const std::string& name) const {
  const auto found = files_.find(name);
  if (found == files_.end()) return std::nullopt;
  return version_in_memory(found->second.bytes);
}

std::vector<std::string> MemoryStore::names_in(const std::string& folder) const {
  const std::string prefix = folder == "." ? "" : cat(folder, '/');
  std::set<std::string> names;
  for (auto file = files_.lower_bound(prefix); file != files_.end() && file->first.starts_with(prefix); ++file) {
    names.insert(file->first.substr(prefix.size(), file->first.find('/', prefix.size()) - prefix.size()));
  }
  if (names.empty()) fail_missing(folder);
  return {names.begin(), names.end()};
}

}  // namespace atompack::io
