// HDF5 identifiers, the lock around the library, and its errors. Only for sources of this folder that call HDF5: its
// types appear in no header other than h5_*.h.
#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

#include "threads/fork_lock.h"

namespace atompack::torch_cache {

// Must exist during calls of HDF5, in one thread at a time. Suppresses the library's error output and restores its
// state.
class H5Session {
 public:
  H5Session();
  H5Session(const H5Session&) = delete;
  H5Session& operator=(const H5Session&) = delete;
  ~H5Session();

 private:
  io::ForkLock lock_;
  H5E_auto2_t report_ = nullptr;
  void* report_data_ = nullptr;
};

// Owner of one identifier of any kind: file, group, dataset, type, space, list or attribute.
class H5Handle {
 public:
  H5Handle() = default;
  explicit H5Handle(hid_t id) : id_(id) {}
  H5Handle(H5Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  H5Handle& operator=(H5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~H5Handle() {
    if (id_ >= 0) H5Idec_ref(id_);
  }

  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }

  // The destructor ignores failures; those of datasets and files are lost writes.
  void close(const std::string& what);

 private:
  hid_t id_ = H5I_INVALID_HID;
};

// Throws IoError without a path: with the number of the system's error if that was the reason, else EIO.
[[noreturn]] void fail_h5(const std::string& what);

// Takes ownership of an HDF5 function's result; throws if it is a failure.
H5Handle own(hid_t id, const std::string& what);
template <typename Status>
Status require_h5(Status status, const std::string& what) {
  if (status < 0) fail_h5(what);
  return status;
}

}  // namespace atompack::torch_cache
