#include "model/value.h"

#include <gtest/gtest.h>

#include "base/error.h"

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

}  // namespace
}  // namespace atompack
