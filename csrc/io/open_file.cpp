#include "io/open_file.h"

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "io/folder.h"
#include "io/local_file.h"
#include "threads/parallel_for_each.h"

namespace atompack::io {

std::shared_ptr<const OpenFile> open_file(const Location& location) {
  if (location.is_remote()) return location.store().open(location.path());
  return std::make_shared<const LocalFile>(location.path());
}

std::shared_ptr<const OpenFile> find_file(const Location& location) {
  if (!location.is_remote() && !version_of(location.path())) return nullptr;  // an exception would take longer
  return if_present([&] { return open_file(location); });
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

std::optional<std::vector<std::string>> list_names(const Location& folder) {
  try {
    return names_in(folder);
  } catch (const IoError& error) {
    if (error.code() != EOPNOTSUPP) throw;
    return std::nullopt;
  }
}

std::vector<std::string> names_among(const Location& folder, std::span<const std::string> candidates) {
  if (auto listed = list_names(folder)) return std::move(*listed);
  std::vector<uint8_t> are_there(candidates.size());
  const auto look = [&](size_t i) { are_there[i] = exists(folder / candidates[i]); };
  threads::parallel_for_each(candidates.size(), static_cast<unsigned>(candidates.size()),
                             look);  // they wait for requests
  std::vector<std::string> names;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (are_there[i] != 0) names.push_back(candidates[i]);
  }
  return names;
}

std::pair<std::vector<std::byte>, std::vector<std::byte>> read_ends(const OpenFile& file, size_t n_first,
                                                                    size_t n_last) {
  const auto read = [&](uint64_t offset, uint64_t n) {
    std::vector<std::byte> bytes(n);
    bytes.resize(file.read_at(offset, bytes));
    return bytes;
  };
  const uint64_t size = file.size(), n_end = std::min<uint64_t>(n_last, size);
  return {read(0, std::min<uint64_t>(n_first, size)), read(size - n_end, n_end)};
}

namespace {

template <typename Vector>
Vector read_all(const OpenFile& file, uint64_t max_bytes) {
  const uint64_t size = file.size();
  if (size > max_bytes) {
    throw CorruptFileError(cat("size: expected at most ", max_bytes, " bytes, got ", size)).in_file(file.path());
  }
  Vector bytes(size);
  bytes.resize(file.read_at(0, bytes));
  return bytes;
}

}  // namespace

std::vector<std::byte> read_whole(const OpenFile& file, uint64_t max_bytes) {
  return read_all<std::vector<std::byte>>(file, max_bytes);
}

TemporaryBytes read_temporarily(const OpenFile& file, uint64_t max_bytes) {
  return read_all<TemporaryBytes>(file, max_bytes);
}

std::vector<std::byte> read_whole(const Location& location, uint64_t max_bytes) {
  return read_whole(*open_file(location), max_bytes);
}

}  // namespace atompack::io
