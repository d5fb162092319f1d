#include "serial/pickle/machine.h"

#include <gtest/gtest.h>

#include "serial/pickle/run.h"

namespace atompack::pickle {
namespace {

using namespace std::string_literals;
using test::run;
using test::str;

TEST(PickleLimits, Depth) {
  const auto nested = [](int depth) { return std::string(depth, ']') + std::string(depth - 1, 'a') + "."; };
  EXPECT_EQ(run(nested(5), {.max_depth = 4}), "[[[[[]]]]]");
  EXPECT_EQ(run(nested(6), {.max_depth = 4}), "unsafe: pickle: expected a nesting depth of at most 4, got more");
  EXPECT_TRUE(run(nested(1 << 20)).starts_with("unsafe: "));
  EXPECT_TRUE(run("]\x94h\0a."s).starts_with("unsafe: ")) << "a list that holds itself";
}

TEST(PickleLimits, Values) {
  EXPECT_EQ(run("](NNNe.", {.max_values = 4}), "[None, None, None]");
  EXPECT_EQ(run("](NNNNe.", {.max_values = 4}), "unsafe: pickle: expected at most 4 values, got more");
  EXPECT_EQ(run(std::string(100, 'N'), {.max_values = 4}),
            "unsafe: pickle: expected at most 16 opcodes, got more (offset 17)");
}

TEST(PickleLimits, ValuesThatAreReferredToCountEachTime) {
  const std::string doubled = "](NNe\x94h\0\x86\x94h\1\x86."s;
  EXPECT_EQ(run(doubled, {.max_values = 15}), "(([None, None], [None, None]), ([None, None], [None, None]))");
  EXPECT_TRUE(run(doubled, {.max_values = 14}).starts_with("unsafe: "));
}

TEST(PickleLimits, BytesThatAreReferredToCountEachTime) {
  const std::string text = "](" + str(std::string(100, 'x')) + "\x94h\0h\0h\0e."s;
  EXPECT_TRUE(run(text, {.max_bytes = 400}).starts_with("[str:"));
  EXPECT_EQ(run(text, {.max_bytes = 399}), "unsafe: pickle: expected at most 399 bytes, got more");
}

TEST(PickleDicts, ARepeatedKeyKeepsItsPlaceAndTakesTheLastValue) {
  EXPECT_EQ(run("}(" + str("a") + "K\1" + str("b") + "K\2" + str("a") + "K\3u."), "{str:61: 3, str:62: 2}");
  EXPECT_EQ(run("}(K\1N\x88K\2G\x3f\xf0\0\0\0\0\0\0K\3u."s), "{1: 3}") << "1, True and 1.0 are one key";
  EXPECT_EQ(run("}(K\1NK\2NG\x3f\xf8\0\0\0\0\0\0Nu."s), "{1: None, 2: None, float:3ff8000000000000: None}");
  EXPECT_EQ(run("}(K\1N\x86NK\1N\x86K\5K\1K\2\x86Nu."), "{(1, None): 5, (1, 2): None}");
  EXPECT_EQ(run("}(C\1aN\x8c\1aNNNNK\1u."), "{bytes:61: None, str:61: None, None: 1}");
}

TEST(PickleDicts, EachNanIsAKey) {
  const std::string nan = "G\x7f\xf8\0\0\0\0\0\0"s, shown = "float:7ff8000000000000";
  EXPECT_EQ(run("}(" + nan + "K\1" + nan + "K\2u."), "{" + shown + ": 1, " + shown + ": 2}");
}

TEST(PickleDicts, ManyKeys) {
  std::string opcodes = "}(", expected = "{";
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 100; ++i) opcodes += "K"s + static_cast<char>(99 - i) + "K" + static_cast<char>(i + round);
  }
  for (int i = 0; i < 100; ++i) expected += cat(i ? ", " : "", 99 - i, ": ", i + 1);
  EXPECT_EQ(run(opcodes + "u."), expected + "}");
}

TEST(PickleDicts, KeysHaveAHash) {
  EXPECT_EQ(run("}]Ns."), "corrupt: pickle: dict: expected hashable keys, got list");
  EXPECT_EQ(run("}]\x85Ns."), "corrupt: pickle: dict: expected hashable keys, got list");
  EXPECT_EQ(run("}}Ns."), "corrupt: pickle: dict: expected hashable keys, got dict");
  EXPECT_EQ(run("}N]s."), "{None: []}");
}

// Fields of a dtype may have keys beside its names, here tuples of a depth that nothing else looks at.
TEST(PickleDicts, KeysOfDictsThatNobodySees) {
  const auto deep = [](char leaf) { return "K"s + leaf + std::string(1 << 16, '\x85'); };
  const auto dtype = [](std::string_view code) {
    return cat(test::global("numpy", "dtype"), str(code), "\x89\x88\x87R");
  };
  const auto fields = [&](const std::string& more) {
    return dtype("V1") + "(K\3" + str("|") + "N" + str("a") + "\x85}(" + str("a") + dtype("u1") + "K\0\x86"s + more +
           "uK\1K\1K\0tb."s;
  };
  EXPECT_EQ(run(fields("")), "dtype({a:|u1@0,1})");
  EXPECT_EQ(run(fields("K\1\x85NK\2\x85N")), "dtype({a:|u1@0,1})");
  EXPECT_EQ(run(fields(deep('\1') + "N" + deep('\2') + "N")),
            "unsafe: pickle: dict: expected keys of a nesting depth of at most 64, got more");
}

}  // namespace
}  // namespace atompack::pickle
