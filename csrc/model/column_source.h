// Interface through which a format hands columns to `collate`: one variable of many datasets. Shapes first, then
// values; the receiver decides where they go and in which type.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  // Starts fetching what all units read, as far as reading ahead helps.
  virtual void announce() const {}
  virtual void read(size_t unit, ColumnVisitor& visitor) const = 0;
};

// A whole array that is in memory already.
struct HeldArray {
  DType dtype = DType::uint8;
  std::span<const uint64_t> shape;
  Bytes values;
  std::shared_ptr<const void> owner;  // of the values
};

// From `start` on (absent: from the first element) as many elements as `count` (absent: to the end) along each axis,
// both clamped to the extent of each array.
struct SliceRequest {
  std::optional<std::vector<uint64_t>> start, count;
  std::optional<uint64_t> max_unstored_bytes = {};  // limit for values that no chunk stores; absent: the format's own
};

// Datasets by number, and their variables. Const methods are thread-safe.
class ColumnSource {
 public:
  virtual ~ColumnSource() = default;
  virtual const std::string& path() const = 0;  // for errors
  virtual int64_t size() const = 0;
  virtual std::string_view dataset_name(int64_t dataset) const = 0;
  // Throws FieldError if none has this name.
  virtual int64_t find_dataset(std::string_view name) const = 0;

  virtual size_t n_variables() const = 0;
  virtual std::string_view variable_name(uint32_t variable) const = 0;
  // The type of a variable's values, for columns in which no row has any.
  virtual ColumnType type_of(uint32_t variable) const = 0;
  // For reads of single small arrays: returns one of numbers if that takes neither reading nor decoding.
  virtual std::optional<HeldArray> find_held(uint32_t, int64_t) const { return std::nullopt; }
  // Reading ahead: the number of datasets to announce before they are read; 0 if all values of the variable are in
  // memory, 1 if that is not known yet. ColumnSlice::announce() announces them.
  virtual int64_t window(uint32_t) const { return 0; }
  // Opens the files of these variables together, where that saves time.
  virtual void prepare(std::span<const uint32_t>) const {}
  // The same slice of one variable in each of these datasets, in any order, repeats allowed. Throws the errors of the
  // variable's files, and of its array in one of these datasets.
  virtual std::unique_ptr<ColumnSlice> slice(uint32_t variable, std::span<const int64_t> datasets,
                                             const SliceRequest& request) const = 0;
};

}  // namespace atompack
