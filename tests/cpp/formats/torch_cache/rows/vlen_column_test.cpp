#include "formats/torch_cache/rows/heap.h"

#include <gtest/gtest.h>

#include <thread>

#include "formats/torch_cache/heap_bytes.h"
#include "message_of.h"

namespace atompack::torch_cache {
namespace {

using test::ByteString;
using test::collection;
using test::reference;

ByteString file() { return collection({{1, ByteString("abcdefgh")}, {2, ByteString("ijklmnopqrstuvwx")}}); }

VlenColumn column(DType dtype = DType::int64) {
  return VlenColumn(
      "numbers", dtype,
      reference(2, 0, 2).append(reference(0, 0, 0)).append(reference(1, 0, 1)).append(reference(1, 0, 2)).bytes());
}

TEST(VlenColumn, RowsAreFoundOnceAndAgain) {
  const ByteString bytes = file();
  const io::MemoryBytes memory(bytes.bytes());
  const GlobalHeap heap(memory, 0);
  const VlenColumn rows = column();
  EXPECT_EQ(rows.n_rows(), 4);
  EXPECT_EQ(rows.total_bytes(), 32U);
  EXPECT_EQ(rows.length(0), 2U);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(as_text(rows.row(heap, 0)), "ijklmnopqrstuvwx");
    EXPECT_TRUE(rows.row(heap, 1).empty());
    EXPECT_EQ(as_text(rows.row(heap, 2)), "abcdefgh");
  }
}

TEST(VlenColumn, ALengthThatDoesNotFitNamesTheColumn) {
  const ByteString bytes = file();
  const io::MemoryBytes memory(bytes.bytes());
  const GlobalHeap heap(memory, 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(test::corrupt([&] { column().row(heap, 3); }),
              "heap object: expected 8 bytes, got 16 (field 'numbers', offset 40)");
  }
  EXPECT_EQ(test::corrupt([&] { column(DType::int32).row(heap, 0); }),
            "heap object: expected 8 bytes, got 16 (field 'numbers', offset 40)");
}

// An address that looks as if the row had been found already.
TEST(VlenColumn, AnAddressWithTheHighestBitSetIsChecked) {
  const ByteString bytes = file();
  const io::MemoryBytes memory(bytes.bytes());
  const GlobalHeap heap(memory, 0);
  const uint64_t mark = uint64_t{1} << 63;
  const VlenColumn rows("numbers", DType::uint8,
                        reference(4, mark | 100, 1).append(reference(4, ~uint64_t{0}, 1)).bytes());
  EXPECT_NE(test::corrupt([&] { rows.row(heap, 0); }).find("expected an address inside the file"), std::string::npos);
  EXPECT_NE(test::corrupt([&] { rows.row(heap, 1); }).find("expected an address inside the file"), std::string::npos);
}

TEST(VlenColumn, ThreadsFindTheSame) {
  const ByteString bytes = file();
  const io::MemoryBytes memory(bytes.bytes());
  const GlobalHeap heap(memory, 0);
  for (int round = 0; round < 200; ++round) {
    const VlenColumn rows = column();
    std::vector<std::jthread> threads;
    for (int k = 0; k < 3; ++k) threads.emplace_back([&] { EXPECT_EQ(as_text(rows.row(heap, 2)), "abcdefgh"); });
  }
}

}  // namespace
}  // namespace atompack::torch_cache
