// Folder operations of a crash-safe writer. An interface, so that tests can stop the writer after any step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"

namespace atompack::io {

// Interface of a file with random-access reads.

// Every failure is an IoError.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual const std::string& path() const = 0;  // for errors
  virtual uint64_t size() const = 0;
  // Reads fewer bytes than asked for only at the end of the file.
  virtual size_t read_at(uint64_t offset, std::span<std::byte> into) const = 0;
};

// File operations of a crash-safe writer. An interface, so that tests can stop the writer after any step.

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

// A locked file under a hidden name next to its final path, invisible there until publish(). The lock is kept after
// publish(); an unpublished file is removed on destruction.
class NewFile : public WritableFile {
 public:
  // Renames the file to its final path, durably. Without `replace`, an existing file is an IoError (EEXIST). Requires
  // that the written data is durable already.
  virtual void publish(bool replace) = 0;
  virtual bool is_published() const = 0;
  // Keeps the unpublished file when its owner is destroyed.
  virtual void leave() = 0;
  // Hint: starts writing this range to the disk.
  virtual void start_writing_back(uint64_t offset, uint64_t length) = 0;
};

// Every failure is an IoError, or a LockedError if another writer has the file. Thread-safe; each file is for one
// thread at a time.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates an empty file; one left by a writer that died is emptied and reused.
  virtual std::unique_ptr<NewFile> create(const std::string& path) = 0;
  // Opens and locks an existing file. IoError (ENOENT) if missing.
  virtual std::unique_ptr<WritableFile> lock(const std::string& path) = 0;
  // Removes the file if it exists; durable, like all methods below.
  virtual void remove(const std::string& path) = 0;
  // Returns false if the folder exists already.
  virtual bool make_folder(const std::string& path) = 0;
  // Makes the current names in a folder durable.
  virtual void sync_folder(const std::string& path) = 0;
};

// Replaces the file atomically: readers see the old or the new content, never a mix.
void replace_file(FileSystem& files, const std::string& path, Bytes content);

FileSystem& real_file_system();
// A file system without fsync: changes survive the death of the process at any time, but not a power failure.
FileSystem& unsynced_file_system();

}  // namespace atompack::io
