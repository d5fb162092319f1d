
#include <gtest/gtest.h>

#include <cmath>

#include "formats/torch_cache/rows/heap.h"
#include "message_of.h"

namespace atompack::torch_cache {
namespace {

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

}  // namespace
}  // namespace atompack::torch_cache
