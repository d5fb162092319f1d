// Interface of a file with random-access reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"

namespace atompack::io {

// Every failure is an IoError.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual const std::string& path() const = 0;  // for errors
  virtual uint64_t size() const = 0;
  // Reads fewer bytes than asked for only at the end of the file.
  virtual size_t read_at(uint64_t offset, std::span<std::byte> into) const = 0;
};

}  // namespace atompack::io
