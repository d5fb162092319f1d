#include "plan/type_rules.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "message_of.h"

namespace atompack::plan {
namespace {

FieldType of(DType dtype) { return {.dtype = dtype}; }

// Values as a survey sees them, one per molecule.
std::optional<Shape> shape_of(const std::vector<Observation>& seen, int64_t n_molecules) {
  std::vector<const Observation*> observed;
  for (const Observation& one : seen) observed.push_back(&one);
  return common_row_shape(observed, n_molecules);
}

TEST(TypeRules, WidthsMix) {
  EXPECT_EQ(common_dtype(DType::float32, DType::float32), DType::float32);
  EXPECT_EQ(common_dtype(DType::float16, DType::float32), DType::float64);
  EXPECT_EQ(common_dtype(DType::float64, DType::bfloat16), DType::float64);
  EXPECT_EQ(common_dtype(DType::int32, DType::int64), DType::int64);
  EXPECT_EQ(common_dtype(DType::uint8, DType::int16), DType::int64);
}

TEST(TypeRules, KindsDoNotMix) {
  EXPECT_FALSE(common_dtype(DType::int64, DType::float64));
  EXPECT_FALSE(common_dtype(DType::boolean, DType::uint8));
  EXPECT_FALSE(common_dtype(DType::complex64, DType::complex128));
  EXPECT_FALSE(common_dtype(DType::uint64, DType::int64));
  const FieldType text{.kind = ValueKind::string};
  EXPECT_FALSE(common_type(text, of(DType::float64)));
  EXPECT_EQ(common_type(text, text), text);
  EXPECT_EQ(test::message_of<FieldError>([&] { widen(text, of(DType::int32)); }),
            "types that cannot share a batch: string and int32");
}

TEST(TypeRules, AtomIndicesStayAtomIndices) {
  FieldType narrow{.level = Level::edge, .dtype = DType::int32, .is_atom_index = true};
  FieldType wide = narrow;
  wide.dtype = DType::int64;
  EXPECT_EQ(common_type(narrow, wide), wide);
  wide.is_atom_index = false;
  EXPECT_FALSE(common_type(narrow, wide));
}

TEST(TypeRules, NumbersAsInPython) {
  EXPECT_EQ(number_dtype(DType::float16), DType::float64);
  EXPECT_EQ(number_dtype(DType::uint32), DType::int64);
  EXPECT_EQ(number_dtype(DType::uint64), DType::uint64);
  EXPECT_EQ(number_dtype(DType::boolean), DType::boolean);
  EXPECT_EQ(number_dtype(DType::complex64), DType::complex64);
}

TEST(TypeRules, CastsLoseNothing) {
  EXPECT_TRUE(can_cast(DType::float64, DType::float16));
  EXPECT_TRUE(can_cast(DType::int32, DType::float64));
  EXPECT_FALSE(can_cast(DType::int64, DType::float64));
  EXPECT_FALSE(can_cast(DType::float32, DType::int32));
}

TEST(TypeRules, RowShapes) {
  const FieldType type = of(DType::float32);
  EXPECT_EQ(shape_of({{0, 0, type, {3}, true}, {1, 0, type, {3}, true}}, 3), Shape{3});
  EXPECT_FALSE(shape_of({{0, 0, type, {3}, true}, {1, 0, type, {2}, true}}, 2));
  EXPECT_FALSE(shape_of({}, 2));
}

TEST(TypeRules, RowShapesOfNoRows) {
  const FieldType type{.level = Level::atom, .dtype = DType::float32};
  EXPECT_EQ(shape_of({{0, 0, type, {2}, false}, {1, 0, type, {3}, true}}, 2), Shape{3});
  EXPECT_EQ(shape_of({{0, 0, type, {2}, false}, {1, 0, type, {2}, false}}, 2), Shape{2});
  EXPECT_FALSE(shape_of({{0, 0, type, {2}, false}, {1, 0, type, {3}, false}}, 2));
  EXPECT_FALSE(shape_of({{0, 0, type, {2}, false}}, 2)) << "the other molecule may need rows";
}

TEST(TypeRules, MissingValues) {
  alignas(16) std::array<std::byte, 32> bytes;
  const auto fill = [&](DType dtype) {
    bytes.fill(std::byte{1});
    fill_missing(bytes.data(), dtype, 2);
    return bytes.data();
  };
  EXPECT_TRUE(std::isnan(reinterpret_cast<const double*>(fill(DType::float64))[1]));
  EXPECT_TRUE(std::isnan(reinterpret_cast<const float*>(fill(DType::float32))[1]));
  for (size_t part = 0; part < 4; ++part) {
    EXPECT_TRUE(std::isnan(reinterpret_cast<const float*>(fill(DType::complex64))[part]));
    EXPECT_TRUE(std::isnan(reinterpret_cast<const double*>(fill(DType::complex128))[part]));
  }
  EXPECT_EQ(reinterpret_cast<const uint16_t*>(fill(DType::float16))[1], 0x7e00);
  EXPECT_EQ(reinterpret_cast<const uint16_t*>(fill(DType::bfloat16))[1], 0x7fc0);
  EXPECT_EQ(reinterpret_cast<const int64_t*>(fill(DType::int64))[1], 0);
  EXPECT_EQ(fill(DType::boolean)[1], std::byte{0});
  EXPECT_EQ(bytes[2], std::byte{1});
}

}  // namespace
}  // namespace atompack::plan
