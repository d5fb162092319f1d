#include "formats/torch_cache/rows/heap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "formats/torch_cache/heap_bytes.h"
#include "message_of.h"

namespace atompack::torch_cache {
namespace {

using test::ByteString;
using test::collection;
using test::corrupt;

ByteString three_objects() {
  return ByteString().zeros(100).append(
      collection({{1, ByteString("first")}, {3, ByteString("the third")}, {2, ByteString("12345678")}}));
}

std::string_view text_at(const GlobalHeap& heap, uint64_t at, size_t length) { return as_text(heap.row(at, length)); }

TEST(GlobalHeap, FindsObjectsByNumber) {
  const ByteString bytes = three_objects();
  const io::MemoryBytes memory(bytes.bytes());
  const GlobalHeap heap(memory, 0);
  EXPECT_EQ(text_at(heap, heap.find(100, 1, 5), 5), "first");
  EXPECT_EQ(text_at(heap, heap.find(100, 2, 8), 8), "12345678");
  EXPECT_EQ(text_at(heap, heap.find(100, 3, 9), 9), "the third");
}

TEST(GlobalHeap, AddressesCountFromTheBase) {
  const ByteString bytes = three_objects();
  const io::MemoryBytes memory(bytes.bytes());
  const GlobalHeap heap(memory, 60);
  EXPECT_EQ(text_at(heap, heap.find(40, 1, 5), 5), "first");
}

TEST(GlobalHeap, ALastObjectMayFillTheCollection) {
  const ByteString bytes = collection({{1, ByteString().zeros(4096 - 32)}});
  EXPECT_EQ(GlobalHeap(io::MemoryBytes(bytes.bytes()), 0).find(0, 1, 4064), 32U);
}

TEST(GlobalHeap, RefusesWhatIsNotThere) {
  const ByteString bytes = three_objects();
  const io::MemoryBytes memory(bytes.bytes());
  const GlobalHeap heap(memory, 0);
  EXPECT_EQ(corrupt([&] { heap.find(100, 4, 5); }), "heap collection: expected an object 4, got none (offset 100)");
  EXPECT_EQ(corrupt([&] { heap.find(100, 0, 5); }), "heap collection: expected an object 0, got none (offset 100)");
  EXPECT_EQ(corrupt([&] { heap.find(100, 65537, 5); }),
            "heap collection: expected an object 65537, got none (offset 100)");
  EXPECT_EQ(corrupt([&] { heap.find(100, 1, 6); }), "heap object: expected 6 bytes, got 5 (offset 116)");
  EXPECT_EQ(corrupt([&] { heap.find(92, 1, 5); }),
            "heap collection: expected the signature GCOL, got another (offset 92)");
}

TEST(GlobalHeap, RefusesAddressesOutsideTheFile) {
  const ByteString bytes = three_objects();
  for (const uint64_t address : {uint64_t{4196}, uint64_t{4181}, ~uint64_t{0}, ~uint64_t{0} - 99}) {
    EXPECT_EQ(corrupt([&] { GlobalHeap(io::MemoryBytes(bytes.bytes()), 0).find(address, 1, 5); }),
              cat("heap collection: expected an address inside the file of 4196 bytes, got ", address));
  }
  EXPECT_NE(corrupt([&] {
              GlobalHeap(io::MemoryBytes(bytes.bytes()), 5000).find(0, 1, 5);
            }).find("expected an address inside"),
            std::string::npos);
}

TEST(GlobalHeap, RefusesSizesThatDoNotFit) {
  const auto error_of = [](size_t at, uint64_t value, uint32_t number) {
    ByteString bytes = three_objects();
    bytes.patch(100 + at, value);
    return corrupt([&] { GlobalHeap(io::MemoryBytes(bytes.bytes()), 0).find(100, number, 8); });
  };
  EXPECT_EQ(error_of(8, 4097, 2), "heap collection: expected at most 4096 bytes, got 4097 (offset 100)");
  EXPECT_EQ(error_of(8, 15, 2), "heap collection: expected at most 4096 bytes, got 15 (offset 100)");
  EXPECT_EQ(error_of(8, ~uint64_t{0}, 2),
            "heap collection: expected at most 4096 bytes, got 18446744073709551615 (offset 100)");
  EXPECT_EQ(error_of(8, 16, 2), "heap collection: expected an object 2, got none (offset 100)");
  EXPECT_EQ(error_of(24, 4065, 2), "heap object: expected at most 4064 bytes, got 4065 (offset 116)");
  EXPECT_EQ(error_of(24, ~uint64_t{0}, 2),
            "heap object: expected at most 4064 bytes, got 18446744073709551615 (offset 116)");
}

TEST(GlobalHeap, RefusesAnotherVersion) {
  ByteString bytes = three_objects();
  bytes.patch<uint8_t>(104, 2);
  EXPECT_EQ(test::unsupported([&] { GlobalHeap(io::MemoryBytes(bytes.bytes()), 0).find(100, 1, 5); }),
            "heap collection: expected version 1, got 2 (offset 100)");
}

TEST(GlobalHeap, AWalkEnds) {
  // A collection of nothing but empty objects of one number.
  ByteString bytes("GCOL");
  bytes.put(uint32_t{1}).put(uint64_t{16 + 16 * 100000});
  for (int i = 0; i < 100000; ++i) bytes.put(uint64_t{1}).put(uint64_t{0});
  EXPECT_EQ(corrupt([&] { GlobalHeap(io::MemoryBytes(bytes.bytes()), 0).find(0, 2, 0); }),
            "heap collection: expected an object 2, got none (offset 0)");
}

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

}  // namespace
}  // namespace atompack::torch_cache
