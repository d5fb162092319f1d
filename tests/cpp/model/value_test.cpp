#include "model/value.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/error.h"
#include "byte_string.h"

namespace atompack {
namespace {

Cell text(std::string_view text) { return Cell::view(Kind::text, as_bytes(text)); }

TEST(ValueTree, SequencesGrowInTurns) {
  ValueTree tree;
  const uint32_t a = tree.add_sequence(Kind::list, {}), b = tree.add_sequence(Kind::list, {});
  for (int i = 0; i < 100; ++i) {
    const Cell cell = Cell::of_integer(i);
    tree.append(i % 3 == 0 ? a : b, std::span(&cell, 1));
  }
  const Value first(tree, Cell::make(Kind::list, a)), second(tree, Cell::make(Kind::list, b));
  ASSERT_EQ(first.size(), 34u);
  ASSERT_EQ(second.size(), 66u);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first.item(i).integer(), 3 * i);
  for (size_t i = 0; i < second.size(); ++i) EXPECT_EQ(second.item(i).integer(), 3 * (i / 2) + 1 + i % 2);
  EXPECT_LT(tree.cells.size(), 400u) << "room grows with what is in it";
}

TEST(Value, Mappings) {
  ValueTree tree;
  const Cell entries[] = {text("a"), Cell::of_integer(1), Cell::of_integer(2), Cell::of_boolean(true)};
  const Value dict(tree, Cell::make(Kind::dict, tree.add_sequence(Kind::dict, entries)));
  EXPECT_EQ(dict.size(), 2u);
  EXPECT_EQ(dict.key(0).text(), "a");
  EXPECT_EQ(dict.find("a")->integer(), 1);
  EXPECT_FALSE(dict.find("b"));
  EXPECT_TRUE(dict.value(1).boolean());
  EXPECT_THROW(dict.item(0), InternalError);
  EXPECT_THROW(dict.key(2), InternalError);
}

TEST(Value, IsTakenForWhatItIs) {
  const ValueTree tree;
  const Value none(tree, Cell::make(Kind::none));
  EXPECT_THROW(none.boolean(), InternalError);
  EXPECT_THROW(none.integer(), InternalError);
  EXPECT_THROW(none.text(), InternalError);
  EXPECT_THROW(none.size(), InternalError);
  EXPECT_THROW(none.find("a"), InternalError);
  EXPECT_THROW(none.array(), InternalError);
  EXPECT_THROW(none.class_name(), InternalError);
  EXPECT_EQ(Value(tree, Cell::of_real(-0.5)).real(), -0.5);
  EXPECT_EQ(Value(tree, Cell::of_integer(INT64_MIN)).integer(), INT64_MIN);
  EXPECT_EQ(name_of(Kind::big_integer), "int");
}

constexpr ElementType type_of(ElementKind kind, uint32_t item_bytes, bool big_endian = false) {
  return {.kind = kind, .big_endian = big_endian, .item_bytes = item_bytes};
}

std::vector<int> copied(const Array& array) {
  std::vector<std::byte> out(array.bytes());
  copy_out(array, out);
  std::vector<int> numbers;
  for (const std::byte byte : out) numbers.push_back(static_cast<int>(byte));
  return numbers;
}

TEST(Array, CopiesAnyLayoutInCOrder) {
  const test::ByteString data{1, 2, 3, 4, 5, 6};
  const std::array<int64_t, 2> shape = {2, 3}, c = {3, 1}, fortran = {1, 2};
  Array array{.type = type_of(ElementKind::unsigned_integer, 1), .shape = shape, .strides = c, .data = data.bytes()};
  EXPECT_EQ(copied(array), (std::vector{1, 2, 3, 4, 5, 6}));
  array.order = Order::fortran;
  array.strides = fortran;
  EXPECT_EQ(copied(array), (std::vector{1, 3, 5, 2, 4, 6}));
  const std::array<int64_t, 2> same = {0, 2};
  array.order = Order::strided;
  array.strides = same;
  EXPECT_EQ(copied(array), (std::vector{1, 3, 5, 1, 3, 5}));
}

TEST(Array, TurnsBytesAround) {
  const test::ByteString data{1, 2, 3, 4, 5, 6, 7, 8};
  const std::array<int64_t, 1> one = {1}, stride = {1};
  const auto item = [&](ElementKind kind, bool big) {
    return copied({.type = type_of(kind, 8, big), .shape = one, .strides = stride, .data = data.bytes()});
  };
  EXPECT_EQ(item(ElementKind::floating, false), (std::vector{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(item(ElementKind::floating, true), (std::vector{8, 7, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(item(ElementKind::complex, true), (std::vector{4, 3, 2, 1, 8, 7, 6, 5}));
  EXPECT_EQ(item(ElementKind::text, true), (std::vector{4, 3, 2, 1, 8, 7, 6, 5}));
  EXPECT_EQ(item(ElementKind::byte_string, true), (std::vector{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(Array, FieldsHaveTypesOfTheirOwn) {
  const test::ByteString data{1, 2, 3, 7, 9, 1, 2, 3, 0, 9};
  const std::array types = {type_of(ElementKind::signed_integer, 2, true), type_of(ElementKind::boolean, 1)};
  const std::array fields = {ElementField{"a", 0, 1}, ElementField{"b", 1, 3}};
  const ElementType type{.kind = ElementKind::raw, .item_bytes = 5, .n_fields = 2};
  const std::array<int64_t, 1> two = {2}, stride = {1};
  const Array array{.type = type, .table = {types, fields}, .shape = two, .strides = stride, .data = data.bytes()};
  EXPECT_EQ(copied(array), (std::vector{1, 3, 2, 1, 9, 1, 3, 2, 0, 9}));
  EXPECT_EQ(type_text(array.table, type), "{a:>i2@1,b:|b1@3,5}");
}

TEST(Array, RefusesWhatIsNoBytes) {
  std::vector<std::byte> out(8);
  const std::array<int64_t, 1> one = {1};
  EXPECT_THROW(copy_out({.type = type_of(ElementKind::object, 8), .shape = one, .strides = one}, out), InternalError);
  EXPECT_THROW(copy_out({.type = type_of(ElementKind::floating, 4), .shape = one, .strides = one}, out), InternalError);
}

TEST(ElementType, TextAndTensorType) {
  const auto text = [](const ElementType& type) { return type_text({}, type); };
  EXPECT_EQ(text(type_of(ElementKind::floating, 4)), "<f4");
  EXPECT_EQ(text(type_of(ElementKind::text, 12, true)), ">U3");
  EXPECT_EQ(text(type_of(ElementKind::object, 8)), "|O");
  EXPECT_EQ(text({.kind = ElementKind::datetime, .item_bytes = 8, .unit = "s", .unit_count = 25}), "<M8[25s]");
  EXPECT_EQ(text({.kind = ElementKind::timedelta, .item_bytes = 8, .unit = "generic"}), "<m8");
  EXPECT_EQ(dtype_of(type_of(ElementKind::floating, 2)), DType::float16);
  EXPECT_EQ(dtype_of(type_of(ElementKind::bfloat16, 2)), DType::bfloat16);
  EXPECT_EQ(dtype_of(type_of(ElementKind::signed_integer, 8, true)), DType::int64);
  EXPECT_EQ(dtype_of(type_of(ElementKind::unsigned_integer, 2)), DType::uint16);
  EXPECT_EQ(dtype_of(type_of(ElementKind::unsigned_integer, 3)), std::nullopt);
  EXPECT_EQ(dtype_of(type_of(ElementKind::floating, 16)), std::nullopt);
}

}  // namespace
}  // namespace atompack
