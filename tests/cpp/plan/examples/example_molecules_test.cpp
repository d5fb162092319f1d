#include "plan/example_plan.h"

#include <gtest/gtest.h>

#include <functional>

#include "serial/pickle/machine.h"
#include "serial/pickle/writer.h"

namespace atompack::collate {
namespace {

// Molecules of 0, 1, 2 ... atoms, and the plan of their batch.
class PlannedMolecules {
 public:
  PlannedMolecules(int n, const std::function<void(pickle::Writer&, int)>& write) {
    pickle::Writer out(bytes_);
    out.begin_list();
    for (int i = 0; i < n; ++i) {
      out.begin_dict();
      out.key("positions");
      put_array(out, {i, 3}, i % 2 == 0 ? DType::float32 : DType::float64);
      out.key("atomic_numbers");
      put_array(out, {i}, DType::int64);
      write(out, i);
      out.end_dict();
    }
    out.end_list();
    out.finish();
    const Value list = machine_.run(bytes_);
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < list.size(); ++i) {
      values_.push_back(list.item(i));
      numbers.push_back(static_cast<int64_t>(i));
    }
    plan = plan_molecules(values_, numbers, {{"per_atom", true}}, arena);
  }

  static void put_array(pickle::Writer& out, std::vector<int64_t> shape, DType dtype) {
    std::vector<int64_t> strides(shape.size());
    int64_t n = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
      strides[axis] = n;
      n *= shape[axis];
    }
    const auto item = static_cast<uint32_t>(item_bytes(dtype));
    const ElementKind kind = is_floating(dtype) ? ElementKind::floating : ElementKind::signed_integer;
    const std::vector<std::byte> data(static_cast<size_t>(n) * item);
    out.array({.type = {.kind = kind, .item_bytes = item}, .shape = shape, .strides = strides, .data = data});
  }

  const FieldPlan& field(size_t i) const { return plan->batch.fields[i]; }

  ArenaLayout arena;
  std::optional<MoleculesPlan> plan;

 private:
  std::vector<std::byte> bytes_;
  pickle::Machine machine_;
  std::vector<Value> values_;
};

TEST(ExampleMolecules, WidthsMix) {
  const PlannedMolecules batch(3, [](pickle::Writer& out, int i) {
    out.key("x");
    PlannedMolecules::put_array(out, {2}, i == 1 ? DType::float32 : DType::float64);
    out.key("n");
    PlannedMolecules::put_array(out, {2}, i == 1 ? DType::int8 : DType::int16);
  });
  ASSERT_TRUE(batch.plan);
  EXPECT_EQ(batch.plan->batch.positions, DType::float64);
  EXPECT_EQ(batch.field(0).type.dtype, DType::float64);
  EXPECT_EQ(batch.field(1).type.dtype, DType::int64);
}

TEST(ExampleMolecules, KindsDoNot) {
  EXPECT_FALSE(PlannedMolecules(2, [](pickle::Writer& out, int i) {
                 out.key("x");
                 i == 0 ? out.integer(1) : out.real(1);
               }).plan);
}

TEST(ExampleMolecules, TwoKeysOfOneField) {
  EXPECT_FALSE(PlannedMolecules(1, [](pickle::Writer& out, int) {
                 for (const char* const key : {"x", "properties/x"}) {
                   out.key(key);
                   out.integer(1);
                 }
               }).plan);
}

TEST(ExampleMolecules, NumbersAreWide) {
  const PlannedMolecules batch(2, [](pickle::Writer& out, int) {
    out.key("x");
    PlannedMolecules::put_array(out, {}, DType::float32);
    out.key("v");
    PlannedMolecules::put_array(out, {2}, DType::float32);
  });
  EXPECT_EQ(batch.field(0).stored, DType::float32);
  EXPECT_EQ(batch.field(0).type.dtype, DType::float64);
  EXPECT_EQ(batch.field(1).type.dtype, DType::float32);
}

TEST(ExampleMolecules, RowsOfNoAtomsMeanNothing) {
  const PlannedMolecules batch(3, [](pickle::Writer& out, int i) {
    out.key("per_atom");
    PlannedMolecules::put_array(out, {i, i == 0 ? 7 : 2}, DType::float32);
    out.key("v");
    PlannedMolecules::put_array(out, {i + 1}, DType::float32);
  });
  EXPECT_FALSE(batch.field(0).ragged);
  EXPECT_EQ(batch.field(0).row_shape, Shape{2});
  EXPECT_TRUE(batch.field(1).ragged);
}

TEST(ExampleMolecules, LabelsOfNoAtomsAreOneTensor) {
  const PlannedMolecules batch(2, [](pickle::Writer& out, int i) {
    if (i != 0) return;
    out.key("forces");
    PlannedMolecules::put_array(out, {0, 3}, DType::float32);
  });
  EXPECT_FALSE(batch.field(0).ragged);
  EXPECT_EQ(batch.field(0).row_shape, Shape{3});
}

}  // namespace
}  // namespace atompack::collate
