#include "base/dtype.h"

#include <gtest/gtest.h>

#include <utility>

namespace atompack {
namespace {

TEST(DType, SizesNamesAndKinds) {
  struct Row {
    DType dtype;
    size_t bytes;
    std::string_view name;
    bool floating;
  };
  const Row rows[] = {
      {DType::boolean, 1, "bool", false},
      {DType::uint8, 1, "uint8", false},
      {DType::int32, 4, "int32", false},
      {DType::int64, 8, "int64", false},
      {DType::float16, 2, "float16", true},
      {DType::bfloat16, 2, "bfloat16", true},
      {DType::float32, 4, "float32", true},
      {DType::float64, 8, "float64", true},
      {DType::int8, 1, "int8", false},
      {DType::int16, 2, "int16", false},
      {DType::uint16, 2, "uint16", false},
      {DType::uint32, 4, "uint32", false},
      {DType::uint64, 8, "uint64", false},
      {DType::complex64, 8, "complex64", false},
      {DType::complex128, 16, "complex128", false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(item_bytes(row.dtype), row.bytes) << row.name;
    EXPECT_EQ(name_of(row.dtype), row.name);
    EXPECT_EQ(is_floating(row.dtype), row.floating) << row.name;
  }
}

}  // namespace
}  // namespace atompack
