// Writing of groups, attributes, tables and references with HDF5. Needs an H5Session.
#pragma once

#include <hdf5.h>

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "formats/torch_cache/hdf5/attributes.h"
#include "threads/process.h"

namespace atompack::torch_cache {

// HDF5 identifiers, the lock around the library, and its errors. Only for sources of this folder that call HDF5: its
// types appear in no header other than h5_*.h.

// Must exist during calls of HDF5, in one thread at a time. Suppresses the library's error output and restores its
// state.
class H5Session {
 public:
  H5Session();
  H5Session(const H5Session&) = delete;
  H5Session& operator=(const H5Session&) = delete;
  ~H5Session();

 private:
  threads::ForkLock lock_;
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

// Without HDF5's lock: the caller has locked the file.
H5Handle open_for_writing(const std::string& path);
void flush(hid_t file);

H5Handle create_group(hid_t parent, const char* name);
void write_attribute(hid_t object, const char* name, const AttributeValue& value);

// Writes a dataset of rows of variable length, given their references.
void write_vlen(hid_t parent, const char* name, DType dtype, Bytes references);

// Writes rows of a compound column by column; columns are added in alphabetical order.
class TableWriter {
 public:
  explicit TableWriter(size_t n_rows) : n_rows_(n_rows) {}

  // T: bool, int32_t, int64_t or double.
  template <typename T>
  void add(const char* name, const std::function<T(size_t)>& value) {
    const auto store_value = [value](size_t row, std::byte* to) {
      if constexpr (std::is_same_v<T, bool>) {
        store_le(to, static_cast<uint8_t>(value(row)));
      } else {
        store_le(to, value(row));
      }
    };
    columns_.push_back({name, kind_of<T>(), sizeof(T), store_value});
  }
  // As wide as the longest string.
  void add_text(const char* name, const std::function<std::string(size_t)>& value);

  void write(hid_t parent, const char* name) const;

 private:
  enum class Kind : uint8_t { flag, int32, int64, float64, text };
  struct Column {
    const char* name;
    Kind kind;
    size_t bytes;
    std::function<void(size_t, std::byte*)> store;
  };
  template <typename T>
  static Kind kind_of() {
    if constexpr (std::is_same_v<T, bool>) return Kind::flag;
    if constexpr (std::is_same_v<T, int32_t>) return Kind::int32;
    if constexpr (std::is_same_v<T, int64_t>) return Kind::int64;
    return Kind::float64;
  }
  static H5Handle type_of(const Column& column);
  H5Handle compound(size_t row_bytes) const;

  size_t n_rows_;
  std::vector<Column> columns_;
};

}  // namespace atompack::torch_cache
