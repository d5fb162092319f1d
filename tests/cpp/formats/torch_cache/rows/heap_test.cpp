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

using Buffer = std::vector<std::byte>;

template <typename T>
Payload payload_of(const std::vector<T>& values, DType type, DType out) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size(), type, out};
}

template <typename T>
std::vector<T> found(const Buffer& file, uint64_t collection, uint32_t number, size_t count) {
  const uint64_t at = GlobalHeap(io::MemoryBytes(file), 0).find(collection, number, count * sizeof(T));
  std::vector<T> values;
  for (size_t i = 0; i < count; ++i) values.push_back(load_le<T>(&file[at + i * sizeof(T)]));
  return values;
}

TEST(Collection, OfNothingIsAsShortAsTheLibraryMakesThem) {
  Buffer file;
  append_collection({}, file);
  EXPECT_EQ(file.size(), 4096U);
  EXPECT_EQ(as_text(Bytes(file).first(5)), std::string_view("GCOL\1", 5));
  EXPECT_EQ(load_le<uint64_t>(&file[8]), 4096U);
  EXPECT_EQ(load_le<uint16_t>(&file[16]), 0U);  // the free space
  EXPECT_EQ(load_le<uint64_t>(&file[24]), 4080U);
}

TEST(Collection, ObjectsAreNumberedFromOneAndEmptyOnesLeftOut) {
  const std::vector<double> numbers{1.5, -0.0, std::nan("")};
  const std::vector<int64_t> atoms{7, 9};
  std::vector<Payload> payloads{
      payload_of(numbers, DType::float64, DType::float64), {}, payload_of(atoms, DType::int64, DType::int64)};
  Buffer file(24);
  append_collection(payloads, file);
  const auto first = found<uint64_t>(file, 24, 1, 3);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(first[i], std::bit_cast<uint64_t>(numbers[i]));
  EXPECT_EQ(found<int64_t>(file, 24, 3, 2), atoms);
  EXPECT_NE(test::corrupt([&] { found<int64_t>(file, 24, 2, 1); }), "nothing was thrown");
  payloads[2].subtract = 7;
  append_collection(payloads, file);
  EXPECT_EQ(found<int64_t>(file, 24 + 4096, 3, 2), (std::vector<int64_t>{0, 2}));
}

TEST(Collection, NumbersAreRoundedOnce) {
  const std::vector<double> wide{0.1, 1e300, -1e-300, 16777217.0, std::nan("")};
  const std::vector<float> narrow{0.1F, -3.5F};
  const Payload payloads[] = {payload_of(wide, DType::float64, DType::float32),
                              payload_of(narrow, DType::float32, DType::float64)};
  Buffer file;
  append_collection(payloads, file);
  const auto rounded = found<float>(file, 0, 1, 5);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(rounded[i], static_cast<float>(wide[i]));
  EXPECT_TRUE(std::isnan(rounded[4]));
  EXPECT_EQ(found<double>(file, 0, 2, 2), (std::vector<double>{0.1F, -3.5}));
}

// Payloads round the length of the shortest collection, where what is left has room for a head, or half of one, or
// none.
TEST(Collection, OfEveryLength) {
  Buffer file;
  for (size_t count = 4000; count < 4200; ++count) {
    const std::vector<uint8_t> bytes(count, static_cast<uint8_t>(count));
    const Payload payloads[] = {payload_of(bytes, DType::uint8, DType::uint8)};
    const uint64_t at = file.size();
    append_collection(payloads, file);
    EXPECT_EQ((file.size() - at) % 8, 0U);
    EXPECT_GE(file.size() - at, 4096U);
    EXPECT_EQ(load_le<uint64_t>(&file[at + 8]), file.size() - at);
    EXPECT_EQ(found<uint8_t>(file, at, 1, count), bytes);
    EXPECT_NE(test::corrupt([&] { GlobalHeap(io::MemoryBytes(file), 0).find(at, 2, 8); }), "nothing was thrown");
  }
}

TEST(Collection, ValuesMayLieAnywhere) {
  Buffer values(17);
  store_le(values.data() + 1, 2.5);
  store_le(values.data() + 9, 3.5);
  const Payload payloads[] = {{values.data() + 1, 2, DType::float64, DType::float32}};
  Buffer file;
  append_collection(payloads, file);
  EXPECT_EQ(found<float>(file, 0, 1, 2), (std::vector<float>{2.5F, 3.5F}));
}

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
