// What a crash-safe writer does to its file. An interface, so that tests can stop it after any step.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"

namespace atompack::io {

// Every failure is an IoError. Methods may be called from several threads as long as the ranges differ.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual const std::string& path() const = 0;  // for errors
  virtual uint64_t size() const = 0;
  // Fewer bytes than asked for only where the file ends.
  virtual size_t read_at(uint64_t offset, std::span<std::byte> into) const = 0;
  // All of the bytes; a failure may leave some of them written.
  virtual void write_at(uint64_t offset, Bytes bytes) = 0;
  virtual void truncate(uint64_t size) = 0;
  // What was written is durable, and with it the file's size.
  virtual void sync_data() = 0;
  virtual void sync() = 0;
};

}  // namespace atompack::io
