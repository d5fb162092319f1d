#include "serial/pickle/machine.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>

#include "serial/pickle/interpreter.h"
#include "serial/pickle/run.h"

namespace atompack::pickle {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;
using test::global;
using test::run;
using test::str;
using test::u64;

TEST(PickleMachine, Scalars) {
  EXPECT_EQ(run("N."), "None");
  EXPECT_EQ(run("\x88."), "True");
  EXPECT_EQ(run("\x89."), "False");
  EXPECT_EQ(run("K\xff."), "255");
  EXPECT_EQ(run("M\xff\xff."), "65535");
  EXPECT_EQ(run("J\xfe\xff\xff\xff."), "-2");
  EXPECT_EQ(run("G\x3f\xf8\0\0\0\0\0\0."sv), "float:3ff8000000000000");
}

TEST(PickleMachine, IntsOfAnySize) {
  EXPECT_EQ(run("\x8a\0."sv), "0");
  EXPECT_EQ(run("\x8a\1\x80."), "-128");
  EXPECT_EQ(run("\x8a\2\x80\0."sv), "128");
  EXPECT_EQ(run("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."), "9223372036854775807");
  EXPECT_EQ(run("\x8a\x09\0\0\0\0\0\0\0\x80\xff."sv), "-9223372036854775808");
  EXPECT_EQ(run("\x8a\x09\0\0\0\0\0\0\0\x80\0."sv), "int:000000000000008000");
  EXPECT_EQ(run("\x8b\2\0\0\0\1\1."sv), "257");
  EXPECT_EQ(run("\x8b\xff\xff\xff\xff."), "corrupt: pickle: size of an int: expected at least 0, got -1 (offset 2)");
}

TEST(PickleMachine, TextAndBytes) {
  EXPECT_EQ(run("\x8c\2ab."), "str:6162");
  EXPECT_EQ(run("X\2\0\0\0ab."sv), "str:6162");
  EXPECT_EQ(run("\x8d" + u64(2) + "ab."), "str:6162");
  EXPECT_EQ(run("C\2ab."), "bytes:6162");
  EXPECT_EQ(run("B\2\0\0\0ab."sv), "bytes:6162");
  EXPECT_EQ(run("\x8e" + u64(0) + "."), "bytes:");
  EXPECT_EQ(run("\x8c\3\xed\xa0\x80."), "str:eda080") << "a lone surrogate";
  EXPECT_EQ(run("\x8c\2\xc3z."), "corrupt: pickle: str: expected UTF-8, got '\\xc3z' (offset 2)");
  EXPECT_EQ(run("\x8e" + u64(uint64_t{1} << 60) + "a."),
            "corrupt: pickle: bytes: expected 1152921504606846976 bytes, got 2 (offset 11)");
}

TEST(PickleMachine, Containers) {
  EXPECT_EQ(run("]."), "[]");
  EXPECT_EQ(run("]K\1a."), "[1]");
  EXPECT_EQ(run("](K\1K\2e."), "[1, 2]");
  EXPECT_EQ(run(")."), "()");
  EXPECT_EQ(run("K\1\x85."), "(1)");
  EXPECT_EQ(run("K\1K\2\x86."), "(1, 2)");
  EXPECT_EQ(run("K\1K\2K\3\x87."), "(1, 2, 3)");
  EXPECT_EQ(run("(t."), "()");
  EXPECT_EQ(run("(K\1K\2K\3K\4t."), "(1, 2, 3, 4)");
  EXPECT_EQ(run("}."), "{}");
  EXPECT_EQ(run("}K\1Ns."), "{1: None}");
  EXPECT_EQ(run("}(K\1NK\2Nu."), "{1: None, 2: None}");
  EXPECT_EQ(run("}(K\1u."), "corrupt: pickle: SETITEMS: expected pairs of keys and values, got 1 values (offset 6)");
  EXPECT_EQ(run(")Na."), "corrupt: pickle: APPEND: expected list, got tuple (offset 4)");
  EXPECT_EQ(run("]NNs."), "corrupt: pickle: SETITEM: expected dict, got list (offset 5)");
}

TEST(PickleMachine, ListsThatGrowInTurns) {
  EXPECT_EQ(run("](]\x94K\1ah\0K\2a](K\3K\4eK\5ah\0(K\6K\7ee."sv),
            "[[1, 2, 6, 7], [1, 2, 6, 7], [3, 4, 5], [1, 2, 6, 7]]");
}

TEST(PickleMachine, Memo) {
  EXPECT_EQ(run("](K\1\x94K\2\x94h\0h\1e."sv), "[1, 2, 1, 2]");
  EXPECT_EQ(run("](K\1q\3K\2r\4\0\0\0h\3j\4\0\0\0e."sv), "[1, 2, 1, 2]");
  EXPECT_EQ(run("]h\0."sv), "corrupt: pickle: memo number: expected one that was stored, got 0 (offset 3)");
  EXPECT_EQ(run("]r\xff\xff\xff\x7f."), "corrupt: pickle: memo number: expected at most 9, got 2147483647 (offset 3)");
}

TEST(PickleMachine, StackErrors) {
  EXPECT_EQ(run("."), "corrupt: pickle: expected one value at the end, got 0 and 0 marks (offset 2)");
  EXPECT_EQ(run("NN."), "corrupt: pickle: expected one value at the end, got 2 and 0 marks (offset 4)");
  EXPECT_EQ(run("N(."), "corrupt: pickle: expected one value at the end, got 1 and 1 marks (offset 4)");
  EXPECT_EQ(run("](Na."), "corrupt: pickle: expected 2 values on the stack, got 1 (offset 5)") << "not past a mark";
  EXPECT_EQ(run("]Ne."), "corrupt: pickle: expected a mark, got none (offset 4)");
  for (const char* opcode : {"\x85", "\x86", "\x87", "a", "s", "R", "b", "\x94", "q\1", "\x93", "\x81"}) {
    EXPECT_TRUE(run(cat("(", opcode, '.')).starts_with("corrupt: pickle: expected ")) << opcode;
  }
}

TEST(PickleMachine, FrontAndEnd) {
  Machine machine;
  const auto outcome = [&](std::string_view block) { return test::data_error([&] { machine.run(as_bytes(block)); }); };
  EXPECT_EQ(outcome(""), "pickle: opcode: expected 1 bytes, got 0 (offset 0)");
  EXPECT_EQ(outcome("N."), "pickle: expected opcode 0x80 PROTO, got 0x4E (offset 0)");
  EXPECT_EQ(outcome("\x80\1."), "pickle: expected protocol 2 to 5, got 1 (offset 0)");
  EXPECT_EQ(outcome("\x80\6."), "pickle: expected protocol 2 to 5, got 6 (offset 0)");
  EXPECT_EQ(outcome("\x80\4N"), "pickle: opcode: expected 1 bytes, got 0 (offset 3)");
  EXPECT_EQ(outcome("\x80\4\x80\4N."), "pickle: expected an opcode, got 0x80 PROTO (offset 2)");
  EXPECT_EQ(run("\x95" + std::string(8, '\xff') + "N."), "None") << "frames need no care";
  EXPECT_EQ(run("N.junk"), "None");
}

TEST(PickleMachine, OtherOpcodesAreRefusedByName) {
  EXPECT_EQ(run("NP."), "unsafe: pickle: expected an opcode of plain data, got 0x50 PERSID (offset 3)");
  EXPECT_EQ(run("NQ."), "unsafe: pickle: expected an opcode of plain data, got 0x51 BINPERSID (offset 3)");
  constexpr std::string_view kRefused =
      "\x82\x83\x84\x8f\x90\x91\x92\x97\x98\x30\x31\x32"
      "FILPQSTUVdgilop";
  for (const char opcode : kRefused) {
    EXPECT_TRUE(run(cat("N", opcode)).starts_with("unsafe: ")) << static_cast<int>(static_cast<uint8_t>(opcode));
  }
  EXPECT_EQ(run("\xff"), "corrupt: pickle: expected an opcode, got 0xFF (offset 2)");
}

TEST(PickleMachine, GlobalsAreComparedAsAWhole) {
  EXPECT_EQ(run(global("os", "system") + "."),
            "unsafe: pickle: expected a global of plain data, got 'os.system' (offset 14)");
  EXPECT_EQ(run("cos\nsystem\n."), "unsafe: pickle: expected a global of plain data, got 'os.system' (offset 2)");
  for (const auto& [module, name] :
       {std::pair("numpy", "load"), std::pair("numpy", "ndarray.tofile"), std::pair("numpy.ndarray", ""),
        std::pair("", "numpy.ndarray"), std::pair("builtins", "print"), std::pair("torch", "FloatStorage")}) {
    EXPECT_TRUE(run(global(module, name) + ".").starts_with("unsafe: ")) << module << ' ' << name;
  }
  EXPECT_EQ(run("cnumpy\n"), "corrupt: pickle: line of a global: expected 1 bytes, got 0 (offset 9)");
  EXPECT_EQ(run("NN\x93."), "corrupt: pickle: STACK_GLOBAL: expected str, got None (offset 4)");
}

TEST(PickleMachine, WhatIsNoValueIsNotHandedOut) {
  EXPECT_EQ(run("]" + global("numpy", "ndarray") + "a."), "unsafe: pickle: expected values, got a global");
  EXPECT_EQ(run("\x96" + u64(1) + "a."), "unsafe: pickle: expected values, got a bytearray");
  EXPECT_EQ(run(global("collections", "OrderedDict") + ")R."), "unsafe: pickle: expected values, got an OrderedDict");
  EXPECT_EQ(run("N)R."), "unsafe: pickle: expected a global, got REDUCE of None (offset 4)");
  EXPECT_EQ(run("]Nb."), "unsafe: pickle: expected an array, dtype or record, got BUILD of list (offset 4)");
}

TEST(PickleMachine, BytesOfProtocol2) {
  const std::string encode = "c_codecs\nencode\n";
  EXPECT_EQ(run(encode + str("ab") + str("latin1") + "\x86R."), "bytes:6162");
  EXPECT_EQ(run(encode + str("\u00ff\u0080a") + str("latin1") + "\x86R."), "bytes:ff8061");
  EXPECT_EQ(run("c__builtin__\nbytes\n)R."), "bytes:");
  EXPECT_TRUE(run(encode + str("\u0100") + str("latin1") + "\x86R.").starts_with("corrupt: "));
  EXPECT_TRUE(run(encode + str("a") + str("utf-7") + "\x86R.").starts_with("unsafe: "));
  EXPECT_TRUE(run("c__builtin__\nbytes\nK\1\x85R.").starts_with("corrupt: "));
}

// One text in the memo, decoded again and again, would stand for more bytes than there are.
TEST(PickleMachine, DecodedTextIsBounded) {
  std::string opcodes = "]\x94(X\xe8\x03\0\0"s;
  for (int i = 0; i < 500; ++i) opcodes += "\u00e9";
  opcodes += "\x94";
  for (int i = 0; i < 100; ++i) opcodes += "c_codecs\nencode\nh\1" + str("latin1") + "\x86R";
  EXPECT_TRUE(run(opcodes + "e.").starts_with("unsafe: pickle: expected at most ")) << run(opcodes + "e.");
}

constexpr RecordClass kPoint = {"geometry", "Point"};

TEST(PickleMachine, RecordsOfClassesThatAreAllowed) {
  const std::string made = global("geometry", "Point") + ")\x81";
  const std::string state = "}" + str("x") + "K\1s";
  EXPECT_TRUE(run(made + ".").starts_with("unsafe: pickle: expected a global of plain data, got 'geometry.Point'"));
  const auto with_class = [](std::string_view opcodes) { return run(opcodes, {}, std::span(&kPoint, 1)); };
  EXPECT_EQ(with_class(made + state + "b."), "geometry.Point{str:78: 1}");
  EXPECT_EQ(with_class(made + "."), "geometry.Point{}");
  EXPECT_TRUE(with_class(global("geometry", "Point") + ".").starts_with("unsafe: ")) << "the class itself";
  EXPECT_TRUE(with_class(global("geometry", "Point") + ")R.").starts_with("unsafe: ")) << "REDUCE of it";
  EXPECT_TRUE(with_class(global("numpy", "ndarray") + ")\x81.").starts_with("unsafe: ")) << "NEWOBJ of another";
  EXPECT_TRUE(with_class(global("geometry", "Point") + "K\1\x85\x81.").starts_with("corrupt: ")) << "arguments";
  EXPECT_TRUE(with_class(made + "K\1b.").starts_with("unsafe: ")) << "a state that is no dict";
  EXPECT_TRUE(with_class(made + "}K\1Nsb.").starts_with("corrupt: ")) << "a name that is no text";
  EXPECT_TRUE(with_class(made + state + "b" + state + "b.").starts_with("corrupt: ")) << "a second state";
}

constexpr std::array<std::string_view, 1> kOwner = {"owner"};
constexpr RecordClass kOwned = {"geometry", "Point", kOwner};

TEST(PickleMachine, AttributesThatAreIgnored) {
  const std::string made = global("geometry", "Point") + ")\x81\x94";
  const std::string state = "}" + str("owner") + "h\0s"s + str("x") + "K\1s";
  const auto with_class = [](std::string_view opcodes) { return run(opcodes, {}, std::span(&kOwned, 1)); };
  EXPECT_EQ(with_class(made + state + "b."), "geometry.Point{str:78: 1}") << "a reference to the object itself";
  const std::string of_class = "}" + str("owner") + global("geometry", "Point") + "s\x94";
  EXPECT_EQ(with_class(made + of_class + "b."), "geometry.Point{}") << "a class";
  EXPECT_TRUE(with_class("(" + made + of_class + "bh\1t.").starts_with("unsafe: ")) << "a class in a dict";
  EXPECT_TRUE(run(made + state + "b.", {}, std::span(&kPoint, 1)).starts_with("unsafe: ")) << "where it is not ignored";
}

TEST(PickleMachine, ForgetsTheLastBlock) {
  Machine machine;
  const std::string first = "\x80\4](K\1\x94K\2e.", second = "\x80\4h\0."s;
  EXPECT_EQ(test::show(machine.run(as_bytes(first))), "[1, 2]");
  EXPECT_THROW(machine.run(as_bytes(second)), CorruptFileError);
  EXPECT_EQ(test::show(machine.run(as_bytes(first))), "[1, 2]");
}

TEST(PickleMachine, CutAnywhereIsAnError) {
  const std::string whole = "](" + str("text") + "\x94h\0M\1\2}"s + str("k") + "C\2abse.";
  EXPECT_EQ(run(whole), "[str:74657874, str:74657874, 513, {str:6b: bytes:6162}]");
  for (size_t n = 0; n < whole.size(); ++n) EXPECT_TRUE(run(whole.substr(0, n)).starts_with("corrupt: ")) << n;
}

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

// Fields of a dtype may have keys next to its names, here tuples of a depth that nothing else looks at.
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
