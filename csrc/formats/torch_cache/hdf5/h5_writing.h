// Writing of groups, attributes, tables and references with HDF5. Needs an H5Session.
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "formats/torch_cache/hdf5/attributes.h"
#include "formats/torch_cache/hdf5/h5_handle.h"

namespace atompack::torch_cache {

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
