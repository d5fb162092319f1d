#include "formats/torch_cache/reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "formats/torch_cache/heap_bytes.h"
#include "message_of.h"

namespace atompack::torch_cache {
namespace {

using test::ByteString;
using test::corrupt;
using Rows = std::vector<int64_t>;

TEST(RowsByEntry, TheLastOfSeveralCounts) { EXPECT_EQ(rows_by_entry("s", Rows{0, 1}, Rows{0, 0}, 1), Rows{1}); }

TEST(CheckLength, HoldsTheProductAgainstTheRow) {
  const VlenColumn column("c", DType::float32, test::reference(6, 0, 1).bytes());
  EXPECT_NO_THROW(check_length(column, 0, 2, 3));
  EXPECT_EQ(corrupt([&] { check_length(column, 0, 3, 3); }),
            "row: expected 3 x 3 values as in the index, got 6 (field 'c')");
  for (const int64_t n : {int64_t{-2}, int64_t{1} << 32, INT64_MIN}) {
    EXPECT_THROW(check_length(column, 0, n, -3), CorruptFileError);
    EXPECT_THROW(check_length(column, 0, n, 3), CorruptFileError);
    EXPECT_THROW(check_length(column, 0, 3, n), CorruptFileError);
  }
  // A product that wraps around to the right length.
  EXPECT_THROW(check_length(column, 0, 2, int64_t{3} | INT64_MIN), CorruptFileError);
}

template <typename T>
std::string index_error(DType dtype, std::initializer_list<T> values, int64_t n_atoms) {
  const VlenColumn column("c", dtype, {});
  return corrupt([&] { check_indices(column, ByteString().put_all(values).bytes(), n_atoms); });
}

TEST(CheckIndices, BothWidths) {
  EXPECT_EQ(index_error<int64_t>(DType::int64, {0, 4, 2}, 5), "nothing was thrown");
  EXPECT_EQ(index_error<int32_t>(DType::int32, {0, 4, 2}, 5), "nothing was thrown");
  EXPECT_EQ(index_error<int64_t>(DType::int64, {}, 0), "nothing was thrown");
  EXPECT_EQ(index_error<int64_t>(DType::int64, {0, 5, 9}, 5), "index: expected atoms from 0 to 4, got 5 (field 'c')");
  EXPECT_EQ(index_error<int64_t>(DType::int64, {0, -1}, 5), "index: expected atoms from 0 to 4, got -1 (field 'c')");
  EXPECT_EQ(index_error<int32_t>(DType::int32, {-1}, 5), "index: expected atoms from 0 to 4, got -1 (field 'c')");
  EXPECT_EQ(index_error<int32_t>(DType::int32, {0}, 0), "index: expected atoms from 0 to -1, got 0 (field 'c')");
}

}  // namespace
}  // namespace atompack::torch_cache
