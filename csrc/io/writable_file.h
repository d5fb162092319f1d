// Operations of a crash-safe writer on its file. An interface, so that tests can stop it after any step.
#pragma once

#include "io/readable_file.h"

namespace atompack::io {

// Every failure is an IoError. Methods may be called from several threads as long as the ranges differ.
class WritableFile : public ReadableFile {
 public:
  // All of the bytes; a failure may leave some of them written.
  virtual void write_at(uint64_t offset, Bytes bytes) = 0;
  virtual void truncate(uint64_t size) = 0;
  // What was written is durable, and with it the file's size.
  virtual void sync_data() = 0;
  virtual void sync() = 0;
};

}  // namespace atompack::io
