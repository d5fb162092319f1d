// The real files, with a stop at any of the operations on them: the process dies there, or the system refuses once.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <string>

#include "io/file_system.h"

namespace atompack::test {

// Thrown by every operation from the stop on.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped"; }
};

// Operations are counted from 0: making, writing, cutting, syncing, publishing and removing files, folders too. Those
// of several threads come in any order. Publishing what was written and not synced is an InternalError.
class FaultyFileSystem final : public io::FileSystem {
 public:
  static constexpr size_t kNever = std::numeric_limits<size_t>::max();

  // Of these, a write's first bytes may get through.
  size_t stop_at = kNever;    // and ever after: the process is dead, what it leaves behind stays
  size_t refuse_at = kNever;  // this one alone: IoError (ENOSPC)
  size_t torn_bytes = 0;

  size_t n_operations() const { return n_operations_; }
  bool stopped() const { return n_operations_ > stop_at; }

  std::unique_ptr<io::NewFile> create(const std::string& path) override {
    count(path);
    return std::make_unique<File>(*this, real_.create(path));
  }
  std::unique_ptr<io::WritableFile> lock(const std::string& path) override { return real_.lock(path); }
  void remove(const std::string& path) override {
    count(path);
    real_.remove(path);
  }
  bool make_folder(const std::string& path) override {
    count(path);
    return real_.make_folder(path);
  }
  void sync_folder(const std::string& path) override {
    count(path);
    real_.sync_folder(path);
  }

 private:
  class File final : public io::NewFile {
   public:
    File(FaultyFileSystem& files, std::unique_ptr<io::NewFile> real) : files_(files), real_(std::move(real)) {}
    ~File() override {
      if (files_.stopped()) real_->leave();
    }

    const std::string& path() const override { return real_->path(); }
    uint64_t size() const override { return real_->size(); }
    size_t read_at(uint64_t offset, std::span<std::byte> into) const override { return real_->read_at(offset, into); }
    void write_at(uint64_t offset, Bytes bytes) override {
      try {
        files_.count(path());
      } catch (...) {
        real_->write_at(offset, bytes.first(std::min(files_.torn_bytes, bytes.size())));
        throw;
      }
      real_->write_at(offset, bytes);
      synced_ = false;
    }
    void truncate(uint64_t size) override {
      files_.count(path());
      real_->truncate(size);
      synced_ = false;
    }
    void sync_data() override { sync(); }
    void sync() override {
      files_.count(path());
      real_->sync();
      synced_ = true;
    }
    void publish(bool replace) override {
      if (!synced_) throw InternalError(cat(path(), ": published before it was synced"));
      files_.count(path());
      real_->publish(replace);
    }
    bool is_published() const override { return real_->is_published(); }
    void leave() override { real_->leave(); }
    void start_writing_back(uint64_t offset, uint64_t length) override { real_->start_writing_back(offset, length); }

   private:
    FaultyFileSystem& files_;
    std::unique_ptr<io::NewFile> real_;
    std::atomic<bool> synced_ = true;
  };

  void count(const std::string& path) {
    const std::lock_guard lock(mutex_);
    const size_t number = n_operations_++;
    if (number >= stop_at) throw Stopped();
    if (number == refuse_at) throw IoError(ENOSPC, std::strerror(ENOSPC), path);
  }

  io::FileSystem& real_ = io::real_file_system();
  std::mutex mutex_;
  std::atomic<size_t> n_operations_ = 0;
};

}  // namespace atompack::test
