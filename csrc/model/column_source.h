// The interface through which a format hands columns to `collate`: one variable of many data sets. Shapes first, then
// values; the receiver alone decides where they go and in which type.
#pragma once

#include <cstdint>
#include <span>

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

}  // namespace atompack
