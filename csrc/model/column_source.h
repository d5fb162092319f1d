// The interface through which a format hands columns to `collate`: one variable of many data sets. Shapes first, then
// values; the receiver alone decides their places and types.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"

namespace atompack {

enum class ColumnKind : uint8_t { numeric, text, bytes };

// What the values of a row are; `dtype` where they are numeric.
struct ColumnType {
  ColumnKind kind = ColumnKind::numeric;
  DType dtype = DType::uint8;
  bool operator==(const ColumnType&) const = default;
};

// Takes values; elements of a row are counted in row-major order. Different units may call it at once.
class ColumnVisitor {
 public:
  virtual ~ColumnVisitor() = default;
  // Where this many elements may be written as they are stored; nullptr where they must go through values().
  virtual std::byte* place(size_t row, uint64_t first, uint64_t n) = 0;
  virtual void values(size_t row, uint64_t first, Bytes values) = 0;
  // One value repeated over the whole row.
  virtual void fill(size_t row, Bytes item) = 0;
  virtual void text(size_t row, uint64_t element, Bytes text) = 0;
};

// The same slice of one variable in each of some data sets: found, but not read yet. What it comes from must outlive
// it. Const methods are thread-safe.
class ColumnSlice {
 public:
  virtual ~ColumnSlice() = default;

  virtual size_t n_rows() const = 0;
  // False where the data set has no such variable; the following are then not asked.
  virtual bool is_present(size_t row) const = 0;
  virtual ColumnType type(size_t row) const = 0;
  virtual std::span<const uint64_t> shape(size_t row) const = 0;

  // What no chunk holds: once, before any unit is read.
  virtual void fill(ColumnVisitor& visitor) const = 0;
  // Pieces of work that can be done side by side.
  virtual size_t n_units() const = 0;
  // How long a piece takes, roughly, in bytes that are copied in this time.
  virtual uint64_t work(size_t unit) const = 0;
  virtual void read(size_t unit, ColumnVisitor& visitor) const = 0;
};

// From `start` on (absent: from the first element) as many elements as `count` (absent: to the end) along each axis,
// both clamped to the extent of each array.
struct SliceRequest {
  std::optional<std::vector<uint64_t>> start, count;
  std::optional<uint64_t> max_unstored_bytes = {};  // limit for values that no chunk stores; absent: the format's own
};

// Data sets by number, and their variables. Const methods are thread-safe.
class ColumnSource {
 public:
  virtual ~ColumnSource() = default;
  virtual int64_t size() const = 0;
  virtual std::string_view dataset_name(int64_t dataset) const = 0;
  // Throws FieldError if there is none of this name.
  virtual int64_t find_dataset(std::string_view name) const = 0;

  virtual size_t n_variables() const = 0;
  virtual std::string_view variable_name(uint32_t variable) const = 0;
  // The type of a variable's values, for columns in which no row has any.
  virtual ColumnType type_of(uint32_t variable) const = 0;
  // The same slice of one variable in each of these data sets, in any order, repeats allowed. Throws the errors of the
  // variable's files, and of its array in one of these data sets.
  virtual std::unique_ptr<ColumnSlice> slice(uint32_t variable, std::span<const int64_t> datasets,
                                             const SliceRequest& request) const = 0;
};

}  // namespace atompack
