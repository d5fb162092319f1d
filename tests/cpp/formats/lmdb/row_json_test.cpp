#include "formats/lmdb/row_json.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace atompack::lmdb {
namespace {

constexpr std::string_view kStructure =
    R"("numbers": {"__ndarray__": [[2], "int64", [1, 8]]}, "positions": [[0, 0, 0.5], [1, NaN, -Infinity]])";

Row parsed(const std::string& entries) {
  Row row;
  row.parse(as_bytes(cat('{', kStructure, entries.empty() ? "" : ", ", entries, '}')));
  return row;
}

std::string shown(const std::string& entries) {
  const Row row = parsed(entries);
  std::string text;
  for (const RowValue& value : row.values()) {
    text += cat(text.empty() ? "" : ", ", value.level == Level::atom ? "atoms " : "", value.key, ' ',
                name_of(value.array.kind), Shape(value.array.shape), value.array.is_narrow ? " narrow" : "");
  }
  for (const std::string& key : row.left_out) text += cat(text.empty() ? "" : ", ", "no ", key);
  return text;
}

TEST(RowJson, KindsOfValues) {
  EXPECT_EQ(shown(R"("energy": -1, "forces": {"__ndarray__": [[2, 3], "float64", [1, 2, 3, 4, 5, 6]]})"),
            "energy integer(), atoms forces real(3,)");
  EXPECT_EQ(shown(R"("magmoms": {"__ndarray__": [[2], "float32", [1, 2]]}, "tags": [1, 2])"),
            "atoms magmoms real(), atoms tags integer()");
  EXPECT_EQ(shown(R"("data": {"a": 1, "b": true, "c": "x", "d": null, "e": [1, 2.5], "f": [[true], [3]]})"),
            "data/a integer(), data/b flag(), data/c text(), data/d null(), data/e real(2,), data/f integer(2, 1)");
  EXPECT_EQ(shown(R"("data": {"x": {"__ndarray__": [[2], "int16", [1, 2]]}}, "key_value_pairs": {"k": 2.0})"),
            "key_value_pairs/k real(), data/x integer(2,) narrow");
  EXPECT_EQ(shown(R"("data": {"atom_properties/q": [1, 2]})"), "atoms data/atom_properties/q integer()");
}

TEST(RowJson, WhatNoFieldHolds) {
  EXPECT_EQ(shown(R"("constraints": [{"name": "FixAtoms"}])"), "no constraints");
  EXPECT_EQ(shown(R"("data": {"a": {"b": 1}, "c": {"__complex__": [1, 2]}, "d": [], "e": ["x"], "f": [[1], 2]})"),
            "no data/a, no data/c, no data/d, no data/e, no data/f");
  EXPECT_EQ(shown(R"("data": {"x": {"__ndarray__": [[1], "<U3", ["abc"]]}, "y": 123456789012345678901})"),
            "data/y real(), no data/x");
  EXPECT_EQ(shown(R"("energy": null, "user": null, "calculator_parameters": {"x": [1]})"), "");
}

TEST(RowJson, Ids) {
  EXPECT_EQ(parse_id(as_bytes("17")), 17);
  EXPECT_EQ(parse_ids(as_bytes("[3, 1, -2]")), (std::vector<int64_t>{3, 1, -2}));
  EXPECT_THROW(parse_id(as_bytes("1.5")), CorruptFileError);
  EXPECT_THROW(parse_ids(as_bytes("[1, \"x\"]")), CorruptFileError);
}

}  // namespace
}  // namespace atompack::lmdb
