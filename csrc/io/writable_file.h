// File operations of a crash-safe writer. An interface, so that tests can stop the writer after any step.
#pragma once

#include "io/readable_file.h"

namespace atompack::io {

// Every failure is an IoError. Methods may be called from several threads if their ranges differ.
class WritableFile : public ReadableFile {
 public:
  // Writes all bytes; a failure may leave some of them written.
  virtual void write_at(uint64_t offset, Bytes bytes) = 0;
  virtual void truncate(uint64_t size) = 0;
  // Makes the written data and the file's size durable.
  virtual void sync_data() = 0;
  virtual void sync() = 0;
};

}  // namespace atompack::io
