#include "formats/array_file/read/array.h"

#include <gtest/gtest.h>

namespace atompack::array_file {
namespace {

using Cell = std::vector<uint64_t>;

TEST(Grid, NumbersCellsInRowMajorOrder) {
  const Grid grid({5, 7}, {2, 3});
  EXPECT_EQ(grid.cells(), (Cell{3, 3}));
  EXPECT_EQ(grid.n_cells(), 9U);
  for (uint64_t number = 0; number < 9; ++number) EXPECT_EQ(grid.number_of(grid.cell_at(number)), number);
  EXPECT_EQ(grid.cell_at(5), (Cell{1, 2}));
}

TEST(Grid, ClipsCellsAtTheEdges) {
  const Box box = Grid({5, 7}, {2, 3}).box_of({2, 2});
  EXPECT_EQ(box.start, (Cell{4, 6}));
  EXPECT_EQ(box.count, (Cell{1, 1}));
}

TEST(Grid, FindsTheCellsOfABox) {
  const auto cells = Grid({5, 7}, {2, 3}).cells_meeting({{1, 3}, {2, 4}});
  ASSERT_TRUE(cells);
  EXPECT_EQ(cells->start, (Cell{0, 1}));
  EXPECT_EQ(cells->count, (Cell{2, 2}));
  std::vector<Cell> seen;
  Cell cell = cells->start;
  do {
    seen.push_back(cell);
  } while (advance(cell, *cells));
  EXPECT_EQ(seen, (std::vector<Cell>{{0, 1}, {0, 2}, {1, 1}, {1, 2}}));
}

TEST(Grid, OfAScalarIsOneCell) {
  const Grid grid({}, {});
  EXPECT_EQ(grid.n_cells(), 1U);
  EXPECT_EQ(grid.cell_at(0), Cell{});
  EXPECT_EQ(grid.box_of({}).n_elements(), 1U);
}

TEST(Grid, WithoutExtentHasNoCells) {
  EXPECT_EQ(Grid({4}, {0}).n_cells(), 0U);
  EXPECT_EQ(Grid({0, 4}, {0, 4}).n_cells(), 0U);
  EXPECT_FALSE(Grid({4}, {0}).cells_meeting({{0}, {1}}));
}

}  // namespace
}  // namespace atompack::array_file
