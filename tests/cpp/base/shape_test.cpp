#include "base/shape.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace atompack {
namespace {

TEST(Shape, PrintsAsPythonDoes) {
  EXPECT_EQ(cat(Shape{}), "()");
  EXPECT_EQ(cat(Shape{3}), "(3,)");
  EXPECT_EQ(cat(Shape{3, 0, 12}), "(3, 0, 12)");
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{3, 4}).numel(), 12);
  EXPECT_EQ((Shape{3, 0, 4294967295}).numel(), 0);
}

TEST(Shape, ComparesRankAndDimensions) {
  EXPECT_EQ((Shape{3, 3}), (Shape{3, 3}));
  EXPECT_NE((Shape{3}), (Shape{3, 1}));
  EXPECT_NE((Shape{3}), (Shape{4}));
  EXPECT_NE(Shape{}, Shape{0});
}

TEST(Shape, CopiesBetweenRanks) {
  Shape longer{1, 2, 3, 4};
  const Shape shorter{5};
  longer = shorter;
  EXPECT_EQ(longer, Shape{5});
  const Shape copy(longer);
  EXPECT_EQ(copy, Shape{5});
  longer.push_back(6);
  EXPECT_EQ(longer, (Shape{5, 6}));
  EXPECT_EQ(copy.rank(), 1);
}

TEST(Shape, HoldsTheHighestRank) {
  Shape shape;
  for (int i = 0; i < Shape::kMaxRank; ++i) shape.push_back(1);
  EXPECT_EQ(shape.rank(), 62);
  EXPECT_EQ(shape.numel(), 1);
}

}  // namespace
}  // namespace atompack
