// Store of files that are in memory already, such as buffers of Python.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "io/open_file.h"

namespace atompack::io {

// Bytes that are valid as long as their owner exists.
struct OwnedBytes {
  Bytes bytes;
  std::shared_ptr<const void> owner;
};

// Names of files may have slashes; "." is the folder of those without. Files are read where they are, without a copy,
// and never change.
class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::map<std::string, OwnedBytes> files) : files_(std::move(files)) {}

  std::shared_ptr<const OpenFile> open(const std::string& name) const override;
  std::optional<FileVersion> version_of(const std::string& name) const override;
  std::vector<std::string> names_in(const std::string& folder) const override;

 private:
  std::map<std::string, OwnedBytes> files_;
};

}  // namespace atompack::io
