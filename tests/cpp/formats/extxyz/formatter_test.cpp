#include "formats/extxyz/formatter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace atompack::extxyz {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Two frames, of one atom and two.
struct Example {
  std::vector<int64_t> ptr = {0, 1, 3}, numbers = {1, 2, 255};
  std::vector<double> positions = {0, 0.5, -0.0, 1, 2, 3, 4, 5, 1e-30}, lattices = std::vector<double>(18, 2);
  std::vector<uint8_t> no = {0, 0}, yes = {1, 1}, pbc = {1, 0, 1, 0, 0, 0};

  BlockView view() const { return {ptr, positions, numbers, lattices, no, pbc, no, {}}; }
};

TEST(Formatter, StructureAlone) {
  const Example example;
  EXPECT_EQ(format_block(example.view()),
            "1\nProperties=species:S:1:pos:R:3\nH 0 0.5 -0\n"
            "2\nProperties=species:S:1:pos:R:3:Z:I:1\nHe 1 2 3 2\nX 4 5 1e-30 255\n");
}

TEST(Formatter, LatticeAndPbc) {
  const Example example;
  BlockView view = example.view();
  const std::vector<uint8_t> first = {1, 0};
  view.has_lattice = first;
  view.has_pbc = example.yes;
  EXPECT_EQ(format_block(view),
            "1\nLattice=\"2.0 2.0 2.0 2.0 2.0 2.0 2.0 2.0 2.0\" Properties=species:S:1:pos:R:3 pbc=\"T F T\"\n"
            "H 0 0.5 -0\n"
            "2\nProperties=species:S:1:pos:R:3:Z:I:1 pbc=\"F F F\"\nHe 1 2 3 2\nX 4 5 1e-30 255\n");
}

// The comment lines of both frames, without what every one has.
std::string entries_of(FieldView field) {
  const Example example;
  BlockView view = example.view();
  view.fields.push_back(std::move(field));
  const std::string text = format_block(view);
  const std::string first = "1\nProperties=species:S:1:pos:R:3", second = "\n2\nProperties=species:S:1:pos:R:3:Z:I:1";
  const size_t at = text.find(second);
  const auto line = [&](size_t begin) { return text.substr(begin, text.find('\n', begin) - begin); };
  return line(first.size()) + " |" + line(at + second.size());
}

TEST(Formatter, StackedValues) {
  const Example example;
  const std::vector<double> reals = {1, 2.5, 3, kInfinity, -kInfinity, std::nan("")};
  const auto stacked = [&](std::vector<int64_t> shape, std::string key = "k") {
    return entries_of(
        {Level::molecule, std::move(key), example.yes, true, {{Kind::real, std::move(shape), reals.data(), {}}}});
  };
  EXPECT_EQ(stacked({}), " k=1.0 | k=2.5");
  EXPECT_EQ(stacked({}, "a key"), " \"a key\"=1.0 | \"a key\"=2.5");
  EXPECT_EQ(stacked({2}), " k=\"1.0 2.5\" | k=\"3.0 inf\"");
  EXPECT_EQ(stacked({3}), " k=\"1.0 2.5 3.0\" | k=\"inf -inf nan\"");
  EXPECT_EQ(stacked({1}), " k=\"_JSON [1.0]\" | k=\"_JSON [2.5]\"");
  EXPECT_EQ(stacked({3, 1}), " k=\"_JSON [[1.0], [2.5], [3.0]]\" | k=\"_JSON [[Infinity], [-Infinity], [NaN]]\"");
  EXPECT_EQ(stacked({0}), " k=\"_JSON []\" | k=\"_JSON []\"");
}

TEST(Formatter, SeparateValues) {
  const Example example;
  const std::vector<int64_t> integers = {1, 2};
  const std::vector<uint8_t> flags = {1, 0}, second = {0, 1};
  EXPECT_EQ(entries_of({Level::molecule,
                        "k",
                        example.yes,
                        false,
                        {{Kind::integer, {2}, integers.data(), {}}, {Kind::flag, {}, flags.data(), {}}}}),
            " k=\"1 2\" | k=T");
  EXPECT_EQ(entries_of({Level::molecule, "k", second, false, {{}, {Kind::flag, {1}, flags.data(), {}}}}),
            " | k=\"_JSON [true]\"");
  EXPECT_EQ(entries_of({Level::molecule,
                        "k",
                        example.yes,
                        false,
                        {{Kind::text, {}, nullptr, "a b"}, {Kind::text, {}, nullptr, "5"}}}),
            " k=\"a b\" | k=\"_JSON \\\"5\\\"\"");
}

TEST(Formatter, MatricesThatAseTransposes) {
  const Example example;
  std::vector<double> reals(18);
  for (size_t i = 0; i < 18; ++i) reals[i] = static_cast<double>(i);
  EXPECT_EQ(entries_of({Level::molecule, "virial", example.yes, true, {{Kind::real, {3, 3}, reals.data(), {}}}}),
            " virial=\"0.0 3.0 6.0 1.0 4.0 7.0 2.0 5.0 8.0\" | virial=\"9.0 12.0 15.0 10.0 13.0 16.0 11.0 14.0 17.0\"");
}

TEST(Formatter, Columns) {
  const Example example;
  BlockView view = example.view();
  const std::vector<double> reals = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> integers = {7, 8};
  const std::vector<uint8_t> flags = {1, 0, 1}, second = {0, 1};
  view.fields = {{Level::atom, "r", example.yes, true, {{Kind::real, {2}, reals.data(), {}}}},
                 {Level::atom, "l l", example.yes, true, {{Kind::flag, {}, flags.data(), {}}}},
                 {Level::atom, "i", second, false, {{}, {Kind::integer, {}, integers.data(), {}}}}};
  EXPECT_EQ(format_block(view),
            "1\nProperties=\"species:S:1:pos:R:3:r:R:2:l l:L:1\"\nH 0 0.5 -0 1 2 T\n"
            "2\nProperties=\"species:S:1:pos:R:3:Z:I:1:r:R:2:l l:L:1:i:I:1\"\n"
            "He 1 2 3 2 3 4 F 7\nX 4 5 1e-30 255 5 6 T 8\n");
}

TEST(Formatter, NoFrames) {
  const std::vector<int64_t> ptr = {0};
  EXPECT_EQ(format_block({ptr, {}, {}, {}, {}, {}, {}, {}}), "");
}

}  // namespace
}  // namespace atompack::extxyz
