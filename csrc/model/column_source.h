// Interface through which a format hands columns to `collate`: one variable of many datasets. Shapes first, then
// values; the receiver decides where they go and in which type.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/dtype.h"

namespace atompack {

enum class ColumnKind : uint8_t { numeric, text, bytes };

// Type of the values of a column; `dtype` is set if they are numeric.
struct ColumnType {
  ColumnKind kind = ColumnKind::numeric;
  DType dtype = DType::uint8;
  bool operator==(const ColumnType&) const = default;
};

// Receiver of values; elements of a row are counted in row-major order. Different units may call it concurrently.
class ColumnVisitor {
 public:
  virtual ~ColumnVisitor() = default;
  // Returns memory for this many elements in their stored type; nullptr if they must go through values().
  virtual std::byte* place(size_t row, uint64_t first, uint64_t n) = 0;
  virtual void values(size_t row, uint64_t first, Bytes values) = 0;
  // Fills the whole row with one value.
  virtual void fill(size_t row, Bytes item) = 0;
  virtual void text(size_t row, uint64_t element, Bytes text) = 0;
};

// The same slice of one variable in several datasets, located but not read yet. Its source must outlive it. Const
// methods are thread-safe.
class ColumnSlice {
 public:
  virtual ~ColumnSlice() = default;

  virtual size_t n_rows() const = 0;
  // False if the dataset has no such variable; the methods below are then not called.
  virtual bool is_present(size_t row) const = 0;
  virtual ColumnType type(size_t row) const = 0;
  virtual std::span<const uint64_t> shape(size_t row) const = 0;

  // Hands over fill values for cells without a chunk: once, before any unit is read.
  virtual void fill(ColumnVisitor& visitor) const = 0;
  // The number of units of work, which can be read concurrently.
  virtual size_t n_units() const = 0;
  // Approximate cost of a unit, as the number of bytes that could be copied in that time.
  virtual uint64_t work(size_t unit) const = 0;
  virtual void read(size_t unit, ColumnVisitor& visitor) const = 0;
};

}  // namespace atompack
