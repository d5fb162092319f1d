// Owner of a file descriptor that forked children do not keep open.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "io/unique_fd.h"

namespace atompack::io {

// A fork closes its copy before anything else runs in it, so that neither a lock (flock) nor the space of a removed
// file depends on children that do not use the file. Only a descriptor that another thread opens or closes during the
// fork may stay open in the child.
class ProcessFd {
 public:
  ProcessFd() = default;
  // Closes the descriptor and is empty if the process has thousands of these already.
  explicit ProcessFd(UniqueFd fd);
  ProcessFd(ProcessFd&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), slot_(std::exchange(other.slot_, nullptr)), owner_(other.owner_) {}
  ProcessFd& operator=(ProcessFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(slot_, other.slot_);
    std::swap(owner_, other.owner_);
    return *this;
  }
  ~ProcessFd();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
  std::atomic<int>* slot_ = nullptr;
  int64_t owner_ = 0;  // process that opened it
};

}  // namespace atompack::io
