#include "model/sources/value_molecules.h"

#include <gtest/gtest.h>

#include <functional>

#include "model/pickled.h"

namespace atompack {
namespace {

using test::put_array;
using test::put_geometry;

class Dicts {
 public:
  Dicts(int n, const std::function<void(pickle::Writer&, int)>& write)
      : pickled_(n, [&](pickle::Writer& writer, int i) {
          writer.begin_dict();
          write(writer, i);
          writer.end_dict();
        }) {}

  std::unique_ptr<ValueMolecules> molecules(const KeyLevels& levels = {}) const {
    return ValueMolecules::make(pickled_.values(), levels);
  }
  KeyLevels levels() const {
    KeyLevels levels;
    learn_levels(pickled_.values(), levels);
    return levels;
  }

 private:
  test::Pickled pickled_;
};

struct SeenValue {
  std::string key;
  FieldType type;
  Shape row_shape;
  std::vector<std::byte> data;
};

class ValueRecorder final : public MoleculeVisitor {
 public:
  void geometry(const Geometry& geometry) override {
    n_atoms = geometry.n_atoms;
    positions.assign(geometry.positions.begin(), geometry.positions.end());
    numbers_dtype = geometry.numbers_dtype;
  }
  void field(const FieldView& view, Bytes data) override {
    fields.push_back({std::string(view.key), view.type, view.row_shape, {data.begin(), data.end()}});
  }

  int64_t n_atoms = -1;
  std::vector<std::byte> positions;
  DType numbers_dtype = DType::boolean;
  std::vector<SeenValue> fields;
};

ValueRecorder visited(const ValueMolecules& molecules, int64_t index) {
  std::vector<std::byte> scratch(static_cast<size_t>(molecules.extent(index).decoded_bytes));
  ValueRecorder recorder;
  molecules.visit(index, molecules.decode(index, scratch), recorder);
  return recorder;
}

TEST(ValueMolecules, FieldsAreViewsOfTheValues) {
  const Dicts dicts(2, [](pickle::Writer& out, int i) {
    put_geometry(out, i + 1);
    out.key("energy");
    out.real(0.5);
    out.key("spins");
    put_array(out, {i + 1});
    out.key("name");
    out.text("water");
    out.key("properties/flag");
    out.boolean(true);
  });
  const auto molecules = dicts.molecules(dicts.levels());
  ASSERT_TRUE(molecules);
  EXPECT_TRUE(molecules->is_uniform());
  EXPECT_FALSE(molecules->needs_scratch(1));
  EXPECT_EQ(molecules->extent(1).n_atoms, 2);
  const auto& fields = molecules->schemas().front().fields;
  ASSERT_EQ(fields.size(), 4u);
  EXPECT_EQ(fields[1].scope, Scope::atom_property);
  EXPECT_EQ(fields[3].scope, Scope::molecule_property);
  EXPECT_EQ(fields[3].key, "flag");
  const ValueRecorder seen = visited(*molecules, 1);
  EXPECT_EQ(seen.n_atoms, 2);
  EXPECT_EQ(seen.numbers_dtype, DType::int16);
  EXPECT_EQ(seen.positions.size(), 24u);
  EXPECT_EQ(load_le<double>(seen.fields[0].data.data()), 0.5);
  EXPECT_EQ(seen.fields[1].type.level, Level::atom);
  EXPECT_EQ(seen.fields[1].row_shape, Shape{});
  EXPECT_EQ(as_text(seen.fields[2].data), "water");
  EXPECT_EQ(seen.fields[3].data, std::vector{std::byte{1}});
}

TEST(ValueMolecules, OtherOrdersAreCopied) {
  const Dicts dicts(1, [](pickle::Writer& out, int) {
    put_geometry(out, 2);
    out.key("forces");
    put_array(out, {2, 3}, 1, ElementKind::unsigned_integer, {1, 2}, Order::fortran);
    out.key("x");
    put_array(out, {2, 3}, 1, ElementKind::unsigned_integer, {1, 2}, Order::fortran);
  });
  EXPECT_FALSE(dicts.molecules()) << "forces of integers";
  const Dicts custom(1, [](pickle::Writer& out, int) {
    put_geometry(out, 2);
    out.key("x");
    put_array(out, {2, 3}, 1, ElementKind::unsigned_integer, {1, 2}, Order::fortran);
  });
  const auto molecules = custom.molecules();
  ASSERT_TRUE(molecules);
  EXPECT_TRUE(molecules->needs_scratch(0));
  EXPECT_EQ(molecules->extent(0).decoded_bytes, 6);
  const ValueRecorder seen = visited(*molecules, 0);
  std::vector<int> values;
  for (const std::byte value : seen.fields[0].data) values.push_back(static_cast<int>(value));
  EXPECT_EQ(values, (std::vector<int>{0, 2, 4, 1, 3, 5}));
}

TEST(ValueMolecules, TypesAndShapesThatDiffer) {
  const Dicts types(2, [](pickle::Writer& out, int i) {
    put_geometry(out, 2);
    out.key("x");
    put_array(out, {3}, i ? 4 : 8, ElementKind::floating);
  });
  EXPECT_FALSE(types.molecules()->is_uniform());
  EXPECT_EQ(types.molecules()->schemas().front().fields[0].row_shape, Shape{3});
  const Dicts shapes(2, [](pickle::Writer& out, int i) {
    put_geometry(out, 2);
    out.key("x");
    put_array(out, {3 + i});
  });
  EXPECT_FALSE(shapes.molecules()->is_uniform());
  EXPECT_FALSE(shapes.molecules()->schemas().front().fields[0].row_shape);
}

TEST(ValueMolecules, WhatNoFieldHolds) {
  using Write = std::function<void(pickle::Writer&)>;
  const std::vector<std::pair<std::string, Write>> odd = {
      {"x", [](pickle::Writer& out) { out.none(); }},
      {"x", [](pickle::Writer& out) { out.bytes(as_bytes("b")); }},
      {"x", [](pickle::Writer& out) { put_array(out, {2}, 4, ElementKind::byte_string); }},
      {"x", [](pickle::Writer& out) { put_array(out, {}, 8, ElementKind::unsigned_integer); }},
      {"name", [](pickle::Writer& out) { out.integer(1); }},
      {"energy", [](pickle::Writer& out) { out.text("1"); }},
      {"energy", [](pickle::Writer& out) { out.boolean(true); }},
      {"forces", [](pickle::Writer& out) { put_array(out, {2, 2}); }},
      {"forces", [](pickle::Writer& out) { put_array(out, {3, 3}); }},
      {"pbc", [](pickle::Writer& out) { put_array(out, {3}, 1, ElementKind::unsigned_integer); }},
      {"atom_properties/x", [](pickle::Writer& out) { out.text("x"); }},
  };
  for (size_t i = 0; i < odd.size(); ++i) {
    const Dicts dicts(1, [&](pickle::Writer& out, int) {
      put_geometry(out, 2);
      out.key(odd[i].first);
      odd[i].second(out);
    });
    EXPECT_FALSE(dicts.molecules()) << i;
  }
}

}  // namespace
}  // namespace atompack
