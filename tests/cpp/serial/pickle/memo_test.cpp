#include "serial/pickle/interpreter.h"

#include <gtest/gtest.h>

namespace atompack::pickle {
namespace {

int64_t at(const Memo& memo, uint64_t number) {
  const Cell* const cell = memo.get(number);
  return cell == nullptr ? -1 : cell->integer;
}

TEST(Memo, NumbersInARow) {
  Memo memo;
  for (int i = 0; i < 3; ++i) memo.put_next(Cell::of_integer(i + 10));
  memo.put(1, Cell::of_integer(5));
  EXPECT_EQ(at(memo, 0), 10);
  EXPECT_EQ(at(memo, 1), 5);
  EXPECT_EQ(at(memo, 2), 12);
  EXPECT_EQ(at(memo, 3), -1);
  memo.clear();
  EXPECT_EQ(at(memo, 0), -1);
}

// As in Python, the next number is the number of entries.
TEST(Memo, OtherNumbers) {
  Memo memo;
  memo.put(uint64_t{1} << 40, Cell::of_integer(1));
  memo.put(1, Cell::of_integer(2));
  memo.put_next(Cell::of_integer(3));  // number 2
  memo.put(0, Cell::of_integer(4));
  memo.put(1, Cell::of_integer(5));
  memo.put_next(Cell::of_integer(6));  // number 4
  EXPECT_EQ(at(memo, uint64_t{1} << 40), 1);
  EXPECT_EQ(at(memo, 0), 4);
  EXPECT_EQ(at(memo, 1), 5);
  EXPECT_EQ(at(memo, 2), 3);
  EXPECT_EQ(at(memo, 3), -1);
  EXPECT_EQ(at(memo, 4), 6);
}

}  // namespace
}  // namespace atompack::pickle
