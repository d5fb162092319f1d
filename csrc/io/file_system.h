// Operations of a crash-safe writer on a folder of files. An interface, so that tests can stop it after any step.
#pragma once

#include <memory>
#include <string>

#include "io/writable_file.h"

namespace atompack::io {

// A file under a hidden name beside the one that it is meant for; until it is published nobody sees it there. It is
// locked, before and after that, and goes away with its owner if it was never published.
class NewFile : public WritableFile {
 public:
  // Gives the file its name, durably. `replace`: also if something stands there; else that is an IoError (EEXIST). What
  // was written must be durable by then.
  virtual void publish(bool replace) = 0;
  virtual bool is_published() const = 0;
  // Unpublished, it stays behind, however its owner ends.
  virtual void leave() = 0;
  // A hint: what lies there is on its way to the disk.
  virtual void start_writing_back(uint64_t offset, uint64_t length) = 0;
};

// Every failure is an IoError, or a LockedError where another writer has the file. For any threads; each file for one
// at a time.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // An empty one, in place of what a writer that died left of such a file.
  virtual std::unique_ptr<NewFile> create(const std::string& path) = 0;
  // A file that is there, locked. IoError (ENOENT) if there is none.
  virtual std::unique_ptr<WritableFile> lock(const std::string& path) = 0;
  // Durably, as all below. Nothing there: nothing to do.
  virtual void remove(const std::string& path) = 0;
  // False if it is there already.
  virtual bool make_folder(const std::string& path) = 0;
  // The names in a folder as they are now.
  virtual void sync_folder(const std::string& path) = 0;
};

// Whoever opens `path` sees the old file or the new one, whole.
void replace_file(FileSystem& files, const std::string& path, Bytes content);

FileSystem& real_file_system();
// The same without waiting for the disk: what it did survives the end of the process at any moment, and after a loss of
// power nobody knows.
FileSystem& unsynced_file_system();

}  // namespace atompack::io
