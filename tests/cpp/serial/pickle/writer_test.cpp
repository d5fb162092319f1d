#include "serial/pickle/writer.h"

#include <gtest/gtest.h>

#include "serial/pickle/run.h"

namespace atompack::pickle {
namespace {

using namespace std::string_view_literals;

// The opcodes between protocol and end.
template <typename Write>
std::string written(const Write& write) {
  std::vector<std::byte> bytes;
  Writer writer(bytes);
  write(writer);
  writer.finish();
  const std::string_view text = as_text(bytes);
  EXPECT_TRUE(text.starts_with("\x80\4") && text.ends_with('.'));
  return std::string(text.substr(2, text.size() - 3));
}

std::string integer(int64_t value) {
  return written([&](Writer& writer) { writer.integer(value); });
}

TEST(PickleWriter, IntsAreShort) {
  EXPECT_EQ(integer(0), "K\0"sv);
  EXPECT_EQ(integer(255), "K\xff"sv);
  EXPECT_EQ(integer(256), "M\0\1"sv);
  EXPECT_EQ(integer(65536), "J\0\0\1\0"sv);
  EXPECT_EQ(integer(-1), "J\xff\xff\xff\xff"sv);
  EXPECT_EQ(integer(int64_t{1} << 31), "\x8a\5\0\0\0\x80\0"sv);
  EXPECT_EQ(integer(INT64_MIN), "\x8a\x08\0\0\0\0\0\0\0\x80"sv);
}

TEST(PickleWriter, OtherScalars) {
  EXPECT_EQ(written([](Writer& writer) { writer.none(); }), "N");
  EXPECT_EQ(written([](Writer& writer) { writer.boolean(true); }), "\x88");
  EXPECT_EQ(written([](Writer& writer) { writer.real(1.5); }), "G\x3f\xf8\0\0\0\0\0\0"sv);
  EXPECT_EQ(written([](Writer& writer) { writer.text("ab"); }), "\x8c\2ab");
  EXPECT_EQ(written([](Writer& writer) { writer.bytes(as_bytes("ab")); }), "C\2ab");
  EXPECT_EQ(written([](Writer& writer) { writer.text(std::string(256, 'x')); }).substr(0, 5), "X\0\1\0\0"sv);
  EXPECT_EQ(written([](Writer& writer) { writer.bytes(as_bytes(std::string(256, 'x'))); }).substr(0, 5), "B\0\1\0\0"sv);
}

TEST(PickleWriter, KeysComeFromTheMemo) {
  const std::string opcodes = written([](Writer& writer) {
    writer.begin_list();
    for (int i = 0; i < 2; ++i) {
      writer.begin_dict();
      writer.key("k");
      writer.none();
      writer.end_dict();
    }
    writer.end_list();
  });
  EXPECT_EQ(opcodes, "](}(\x8c\1k\x94Nu}(h\0Nue"sv);
  EXPECT_EQ(test::run(opcodes + "."), "[{str:6b: None}, {str:6b: None}]");
}

TEST(PickleWriter, MoreThan256Keys) {
  const std::string opcodes = written([](Writer& writer) {
    writer.begin_list();
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 300; ++i) writer.key(cat(i));
    }
    writer.end_list();
  });
  EXPECT_TRUE(opcodes.ends_with("j\x2b\1\0\0e"sv));
  EXPECT_EQ(test::run(opcodes + ".").size(), 2 * test::run(opcodes.substr(0, opcodes.find('h')) + "e.").size());
}

Array array_of(const ElementType& type, std::span<const int64_t> shape, std::span<const int64_t> strides, Bytes data) {
  return {.type = type, .shape = shape, .strides = strides, .data = data};
}

TEST(PickleWriter, FurtherArraysAreShort) {
  constexpr int64_t kShape[] = {3}, kStride[] = {1};
  const std::string data(12, 'x');
  const Array array = array_of({.kind = ElementKind::floating, .item_bytes = 4}, kShape, kStride, as_bytes(data));
  const auto arrays = [&](int n) {
    return written([&](Writer& writer) {
      writer.begin_list();
      for (int i = 0; i < n; ++i) writer.array(array);
      writer.end_list();
    });
  };
  EXPECT_EQ(test::run(arrays(2) + "."), cat("[", test::run(written([&](Writer& w) { w.array(array); }) + "."), ", ",
                                            test::run(written([&](Writer& w) { w.array(array); }) + "."), "]"));
  EXPECT_LE(arrays(3).size() - arrays(2).size(), 12u + 20u);
}

TEST(PickleWriter, WhatOthersDoNotHave) {
  constexpr int64_t kShape[] = {1};
  const auto outcome = [&](ElementKind kind, uint32_t size, bool tensor) {
    const std::string data(size, 'x');
    const Array array = array_of({.kind = kind, .item_bytes = size}, kShape, kShape, as_bytes(data));
    return test::unsupported([&] { written([&](Writer& w) { tensor ? w.tensor(array) : w.array(array); }); });
  };
  EXPECT_EQ(outcome(ElementKind::bfloat16, 2, false), "pickle: NumPy has no element type bfloat16");
  EXPECT_EQ(outcome(ElementKind::unsigned_integer, 4, true), "pickle: torch has no storage of <u4");
  constexpr RecordClass kPoint = {"geometry", "Point"};
  Machine machine(std::span(&kPoint, 1));
  const Value record = machine.run(as_bytes("\x80\4cgeometry\nPoint\n)\x81."));
  EXPECT_EQ(test::unsupported([&] { written([&](Writer& w) { w.value(record); }); }),
            "pickle: expected plain data, got an object of geometry.Point");
}

TEST(PickleWriter, GoesBack) {
  const std::string plain = written([](Writer& writer) {
    writer.key("a");
    writer.key("b");
    writer.key("b");
  });
  const std::string returned = written([](Writer& writer) {
    writer.key("a");
    const Writer::Place place = writer.place();
    writer.key("c");
    writer.key("b");
    writer.return_to(place);
    writer.key("b");
    writer.key("b");
  });
  EXPECT_EQ(returned, plain);
}

TEST(PickleWriter, ObjectArrays) {
  std::vector<std::byte> bytes;
  Writer writer(bytes);
  const int64_t shape[] = {2};
  writer.begin_objects(shape, false);
  writer.integer(1);
  writer.text("x");
  writer.end_objects();
  writer.finish();
  Machine machine;
  const KeptValue kept = machine.run_and_keep(bytes);
  machine.run(as_bytes("\x80\x04N."));
  const Value value = kept.value();
  EXPECT_EQ(value.size(), 2u);
  EXPECT_EQ(value.item(0).integer(), 1);
  EXPECT_EQ(value.item(1).text(), "x");
  EXPECT_GT(kept.bytes(), 0u);
}

}  // namespace
}  // namespace atompack::pickle
