#include <gtest/gtest.h>

#include "serial/pickle/run.h"

namespace atompack::pickle {
namespace {

using namespace std::string_literals;
using test::global;
using test::run;
using test::str;
using test::u64;

std::string dtype(std::string_view code) { return cat(global("numpy", "dtype"), str(code), "\x89\x88\x87R"); }

// With the state that numbers have.
std::string built(std::string_view code, std::string_view order = "<") {
  return cat(dtype(code), "(K\3", str(order), "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff", "K\0"s, "tb");
}

std::string empty_array() {
  return global("numpy.core.multiarray", "_reconstruct") + global("numpy", "ndarray") + "K\0\x85"s + "C\1b\x87R";
}

std::string array(const std::string& shape, const std::string& type, const std::string& data, bool fortran = false) {
  return empty_array() + "(K\1" + shape + type + (fortran ? "\x88" : "\x89") + data + "tb";
}

std::string from_buffer(const std::string& arguments) {
  return global("numpy._core.numeric", "_frombuffer") + "(" + arguments + "tR.";
}

TEST(PickleNumpy, Arrays) {
  EXPECT_EQ(run(array("K\2\x85", built("i2"), "C\4\1\2\3\4") + "."), "array(<i2 2 C 01020304)");
  EXPECT_EQ(run(array("K\2\x85", built("i2", ">"), "C\4\1\2\3\4") + "."), "array(<i2 2 C 02010403)");
  EXPECT_EQ(run(array(")", built("u1", "|"), "C\1\7") + "."), "array(|u1  C 07)");
  EXPECT_EQ(run(array("K\0K\3\x86"s, built("f8"), "C\0"s) + "."), "array(<f8 0x3 C )");
  EXPECT_EQ(run(array("K\2K\3\x86", built("u1", "|"), "C\6\1\2\3\4\5\6", true) + "."), "array(|u1 2x3 F 010305020406)");
  EXPECT_EQ(run(array("K\3\x85", built("b1", "|"), "C\3\0\2\1"s) + "."), "array(|b1 3 C 000101)") << "bools are 0 or 1";
}

TEST(PickleNumpy, DataMustFitTheShape) {
  EXPECT_EQ(run(array("K\2\x85", built("f8"), "C\2ab") + "."),
            "corrupt: pickle: data of an array: expected 16 bytes, got 2 (offset 123)");
  const std::string huge = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f";
  EXPECT_TRUE(run(array(huge + huge + "\x86", built("f8"), "C\2ab") + ".").starts_with("corrupt: pickle: elements"));
  EXPECT_TRUE(run(array(huge + huge + "K\0\x87"s, built("f8"), "C\0"s) + ".").starts_with("corrupt: pickle: elements"));
  EXPECT_TRUE(run(array(huge + "\x85", built("f8"), "C\2ab") + ".").starts_with("corrupt: pickle: bytes of an array"));
  EXPECT_TRUE(run(array("J\xff\xff\xff\xff\x85", built("f8"), "C\0"s) + ".").starts_with("corrupt: pickle: shape"));
  std::string ones;
  for (int i = 0; i < 65; ++i) ones += "K\1";
  EXPECT_TRUE(run(array("(" + ones + "t", built("u1", "|"), "C\1a") + ".").starts_with("corrupt: pickle: shape"));
}

// Items of no bytes: few bytes must not stand for endless work.
TEST(PickleNumpy, EmptyItemsCountAsValues) {
  const auto texts = [](const std::string& n) {
    return array(n + "\x85", dtype("U0") + "(K\3" + str("<") + "NNNK\0K\4K\x08tb"s, "C\0"s) + ".";
  };
  EXPECT_EQ(run(texts("K\2")), "array(<U0 2 C )");
  EXPECT_EQ(run(texts("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f")),
            "unsafe: pickle: expected at most 16777216 values, got more");
}

TEST(PickleNumpy, ArraysAreFilledOnce) {
  EXPECT_EQ(run(empty_array() + "."), "corrupt: pickle: expected arrays with data, got one without");
  const std::string state = "(K\1K\1\x85" + built("u1") + "\x89" + "C\1atb";
  EXPECT_EQ(run(empty_array() + state + "."), "array(|u1 1 C 61)");
  EXPECT_TRUE(run(empty_array() + state + state + ".").starts_with("corrupt: pickle: BUILD: expected an empty array"));
}

// The size of a type that an array relies on must stay what it was.
TEST(PickleNumpy, TypesAreBuiltOnceAndNotAfterUse) {
  const std::string state = "(K\3" + str("<") + "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"s;
  EXPECT_EQ(run(dtype("f4") + state + "."), "dtype(<f4)");
  EXPECT_TRUE(run(dtype("f4") + state + state + ".").starts_with("corrupt: pickle: BUILD: expected a new dtype"));
  const std::string scalar = global("numpy._core.multiarray", "scalar") + dtype("f4") + "\x94" + "C\4abcd\x86R";
  EXPECT_TRUE(run("](" + scalar + "h\0"s + state + "e.").starts_with("corrupt: pickle: BUILD: expected a new dtype"));
}

TEST(PickleNumpy, Types) {
  EXPECT_EQ(run(built("f4", ">") + "."), "dtype(>f4)");
  EXPECT_EQ(run(dtype("c16") + "."), "dtype(<c16)");
  EXPECT_EQ(run(dtype("V4") + "."), "dtype(|V4)");
  for (const char* code : {"", "f", "f3", "i16", "b2", "c4", "O4", "M4", "U4294967295", "f4x", "f-4", "f 4"}) {
    const std::string text = run(dtype(code) + ".");
    EXPECT_TRUE(text.starts_with("corrupt: ") || text.starts_with("unsafe: ")) << code;
  }
  EXPECT_TRUE(run(dtype("T16") + ".").starts_with("unsafe: ")) << "StringDType";
  EXPECT_TRUE(run(built("f4", "=") + ".").starts_with("corrupt: "));
}

TEST(PickleNumpy, Dates) {
  const auto date = [](const std::string& metadata) {
    return dtype("M8") + "(K\4" + str("<") + "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff" + "K\0"s + metadata + "tb.";
  };
  EXPECT_EQ(run(date("N(C\1DK\1K\1K\1t\x86")), "dtype(<M8[D])");
  EXPECT_EQ(run(date("}(C\1sK\x19K\1K\1t\x86")), "dtype(<M8[25s])");
  EXPECT_TRUE(run(date("N(C\1DK\1K\2K\1t\x86")).starts_with("unsafe: "));
  EXPECT_TRUE(run(date("}K\1Ns(C\1DK\1K\1K\1t\x86")).starts_with("unsafe: ")) << "metadata";
  EXPECT_TRUE(run(date("(C\1DK\1K\1K\1t")).starts_with("corrupt: "));
}

std::string fields(const std::string& names, const std::string& entries, char size = '\4') {
  return dtype(cat('V', int{size})) + "(K\3" + str("|") + "N" + names + "}(" + entries + "uK" + size + "K\1K\x10tb";
}

std::string field(const std::string& name, const std::string& type, char at) {
  return str(name) + type + "K" + at + "\x86";
}

TEST(PickleNumpy, Fields) {
  const std::string a = str("a"), b = str("b");
  EXPECT_EQ(run(fields(a + b + "\x86", field("a", built("i2", ">"), '\0') + field("b", built("u1"), '\3')) + "."),
            "dtype({a:>i2@0,b:|u1@3,4})");
  EXPECT_EQ(run(array("K\1\x85", fields(a + "\x85", field("a", built("i2", ">"), '\1')), "C\4\1\2\3\4") + "."),
            "array({a:<i2@1,4} 1 C 01030204)");
  EXPECT_TRUE(run(fields(a + "\x85", field("a", built("i2"), '\3')) + ".").starts_with("corrupt: ")) << "outside";
  EXPECT_TRUE(run(fields(a + "\x85", field("b", built("i2"), '\0')) + ".").starts_with("corrupt: ")) << "no such field";
  EXPECT_TRUE(run(fields(a + b + "\x86", field("a", built("i2"), '\0') + field("b", built("u1"), '\1')) + ".")
                  .starts_with("unsafe: "))
      << "two in one place";
  EXPECT_TRUE(run(fields(a + "\x85", field("a", dtype("V0"), '\0')) + ".").starts_with("unsafe: ")) << "of no bytes";
  EXPECT_TRUE(run(fields(a + "\x85", field("a", dtype("O8"), '\0'), '\x08') + ".").starts_with("unsafe: "))
      << "objects";
}

TEST(PickleNumpy, FieldsAreNotEndless) {
  std::string nested = built("u1", "|");
  for (int i = 0; i < 8; ++i) nested = fields(str("a") + "\x85", field("a", nested, '\0'), '\1');
  EXPECT_TRUE(run(nested + ".").starts_with("dtype({a:{a:")) << run(nested + ".");
  nested = fields(str("a") + "\x85", field("a", nested, '\0'), '\1');
  EXPECT_TRUE(run(nested + ".").starts_with("unsafe: "));
  const std::string self =
      dtype("V1") + "\x94(K\3" + str("|") + "N" + str("a") + "\x85}" + str("a") + "h\0K\0\x86sK\1K\1K\0tb."s;
  EXPECT_EQ(run(self).substr(0, 8), "corrupt:") << "a type inside itself";
}

TEST(PickleNumpy, Objects) {
  const auto objects = [](char flags, const std::string& data) {
    return array("K\1\x85", dtype("O8") + "(K\3" + str("|") + "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK" + flags + "tb",
                 data) +
           ".";
  };
  EXPECT_EQ(run(objects('\x3f', "]Na")), "array(|O 1 C [None])");
  EXPECT_EQ(run(objects('\0', "C\x08" + std::string(8, 'A'))),
            "unsafe: pickle: dtype: expected the flags 63 of objects, got 0 (offset 116)");
  EXPECT_TRUE(run(objects('\x3f', "C\x08" + std::string(8, 'A'))).starts_with("corrupt: "));
  EXPECT_TRUE(run(objects('\x3f', "]")).starts_with("corrupt: "));
}

TEST(PickleNumpy, FromBuffer) {
  const std::string six = "\x96" + u64(6) + "\1\2\3\4\5\6", type = built("u1", "|"), shape = "K\2K\3\x86";
  EXPECT_EQ(run(from_buffer(six + type + shape + str("C"))), "array(|u1 2x3 C 010203040506)");
  EXPECT_EQ(run(from_buffer(six + type + shape + str("F"))), "array(|u1 2x3 F 010305020406)");
  EXPECT_EQ(run(from_buffer(six + type + shape + str("K") + "K\1K\0\x86"s)), "array(|u1 3x2 F 010402050306)");
  EXPECT_EQ(run(from_buffer("C\6\1\2\3\4\5\6" + type + "K\1K\2K\3\x87" + str("K") + "K\1K\0K\2\x87"s)),
            "array(|u1 2x1x3 C 010203040506)");
  EXPECT_TRUE(run(from_buffer(six + type + shape + str("K"))).starts_with("corrupt: ")) << "no axes";
  EXPECT_TRUE(run(from_buffer(six + type + shape + str("K") + "K\0K\0\x86"s)).starts_with("corrupt: ")) << "one twice";
  EXPECT_TRUE(run(from_buffer(six + type + shape + str("K") + "K\0K\2\x86"s)).starts_with("corrupt: "))
      << "no such axis";
  EXPECT_TRUE(run(from_buffer(six + type + shape + str("C") + ")")).starts_with("corrupt: "));
}

TEST(PickleNumpy, Calls) {
  EXPECT_EQ(run(global("numpy.core.multiarray", "scalar") + built("i2", ">") + "C\2\1\2\x86R."), "scalar(<i2 0201)");
  EXPECT_TRUE(run(global("numpy.core.multiarray", "scalar") + dtype("O8") + "C\x08" + u64(0) + "\x86R.")
                  .starts_with("unsafe: "));
  EXPECT_TRUE(run(global("numpy.core.multiarray", "scalar") + built("i2") + "C\1\1\x86R.").starts_with("corrupt: "));
  const std::string reconstruct = global("numpy.core.multiarray", "_reconstruct");
  EXPECT_TRUE(run(reconstruct + global("numpy", "dtype") + "K\0\x85"s + "C\1b\x87R.").starts_with("unsafe: "));
  EXPECT_TRUE(run(reconstruct + global("numpy", "ndarray") + "K\1\x85" + "C\1b\x87R.").starts_with("corrupt: "));
  EXPECT_EQ(run(global("numpy", "ndarray") + "K\2\x85" + str(">i2") + "C\4\1\2\3\4\x87R."), "array(<i2 2 C 02010403)");
  EXPECT_EQ(run(global("numpy", "ndarray") + "K\1\x85" + str("?") + "C\1\1\x87R."), "array(|b1 1 C 01)");
  EXPECT_TRUE(
      run(global("numpy", "ndarray") + "K\1\x85" + str("O8") + "C\x08" + u64(1) + "\x87R.").starts_with("unsafe: "));
  EXPECT_TRUE(run(global("numpy", "ndarray") + "K\1\x85R.").starts_with("corrupt: "));
}

}  // namespace
}  // namespace atompack::pickle
