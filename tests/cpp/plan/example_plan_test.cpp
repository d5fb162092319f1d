#include "plan/example_plan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "message_of.h"
#include "model/pickled.h"

namespace atompack::plan {
namespace {

using Form = ExampleNode::Form;

using test::Pickled;
using test::put_array;

// The plan of a batch of examples.
class Planned {
 public:
  Planned(int n, const std::function<void(pickle::Writer&, int)>& write, bool jagged = false) : pickled_(n, write) {
    std::vector<int64_t> numbers;
    for (int i = 0; i < n; ++i) numbers.push_back(10 * i);
    learn_levels(pickled_.values(), levels_);
    plan_ = plan_examples(pickled_.values(), numbers, levels_, jagged);
  }

  explicit operator bool() const { return plan_.has_value(); }
  const ExampleNode& root() const { return plan_->root; }
  const Leaf& leaf(size_t i) const { return plan_->leaves[i]; }
  const std::vector<Leaf>& leaves() const { return plan_->leaves; }
  const KeyLevels& levels() const { return levels_; }
  const ExamplePlan& plan() const { return *plan_; }

 private:
  Pickled pickled_;
  KeyLevels levels_;
  std::optional<ExamplePlan> plan_;
};

void put_molecule(pickle::Writer& out, int64_t n_atoms) {
  out.begin_dict();
  test::put_geometry(out, n_atoms);
}

std::vector<int64_t> content_of(const Leaf& leaf) {
  std::vector<int64_t> numbers(leaf.content.size() / 8);
  std::memcpy(numbers.data(), leaf.content.data(), leaf.content.size());
  return numbers;
}

TEST(ExamplePlan, NumbersAndTexts) {
  const Planned batch(3, [](pickle::Writer& out, int i) {
    out.begin_dict();
    out.key("n");
    out.integer(i);
    out.key("x");
    out.real(i);
    out.key("flag");
    out.boolean(true);
    out.key("text");
    out.text(cat("t", i));
    out.end_dict();
  });
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch.root().form, Form::dict);
  EXPECT_EQ(batch.root().keys, (std::vector<std::string>{"n", "x", "flag", "text"}));
  EXPECT_EQ(batch.leaf(0).dtype, DType::int64);
  EXPECT_EQ(batch.leaf(1).dtype, DType::float64);
  EXPECT_EQ(batch.leaf(2).dtype, DType::boolean);
  EXPECT_EQ(batch.leaf(2).shape, std::vector<int64_t>{3});
  EXPECT_EQ(batch.root().children[3].strings[2], "t2");
}

TEST(ExamplePlan, LeavesDoNotOverlap) {
  const Planned batch(5, [](pickle::Writer& out, int i) {
    out.begin_list();
    put_array(out, {i + 1, 3});
    put_array(out, {2, 5}, 1, ElementKind::unsigned_integer);
    out.end_list();
  });
  ASSERT_TRUE(batch);
  size_t end = 0;
  for (const Leaf& leaf : batch.leaves()) {
    EXPECT_GE(leaf.offset, end);
    EXPECT_EQ(leaf.offset % 64, 0u);
    end = leaf.offset + leaf.bytes();
    for (const Leaf::Part& part : leaf.parts) EXPECT_LE(part.offset + part.length, leaf.bytes());
  }
  EXPECT_LE(end, batch.plan().arena.size());
  EXPECT_EQ(batch.root().children[0].form, Form::tensors);
  EXPECT_EQ(batch.root().children[1].form, Form::tensor);
}

TEST(ExamplePlan, Jagged) {
  const auto rows = [](pickle::Writer& out, int i) { put_array(out, {i, 2}); };
  const Planned batch(3, rows, true);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch.root().form, Form::jagged);
  EXPECT_EQ(batch.leaf(0).shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(content_of(batch.leaf(1)), (std::vector<int64_t>{0, 0, 1, 3}));
  const Planned other(3, [](pickle::Writer& out, int i) { put_array(out, {i, i}); }, true);
  EXPECT_EQ(other.root().form, Form::tensors);
}

TEST(ExamplePlan, RowsOfNothing) {
  constexpr int64_t kMany = int64_t{1} << 61;
  const auto rows = [](pickle::Writer& out, int i) {
    put_array(out, {kMany + i, 0}, 1, ElementKind::unsigned_integer);
  };
  const Planned batch(3, rows, true);
  EXPECT_EQ(batch.leaf(0).shape, (std::vector<int64_t>{3 * kMany + 3, 0}));
  EXPECT_EQ(test::corrupt([&] { Planned(4, rows, true); }),
            "rows of a batch: expected at most 9223372036854775807, got 9223372036854775814");
}

TEST(ExamplePlan, RefusesIncompatibleExamples) {
  using Write = std::function<void(pickle::Writer&, int)>;
  const std::vector<Write> odd = {
      [](pickle::Writer& out, int) { out.none(); },
      [](pickle::Writer& out, int i) { i ? out.integer(i) : out.real(i); },
      [](pickle::Writer& out, int i) { i ? out.text("x") : out.bytes(as_bytes("x")); },
      [](pickle::Writer& out, int i) { put_array(out, {2}, i ? 4 : 8); },
      [](pickle::Writer& out, int) { put_array(out, {2}, 4, ElementKind::byte_string); },
      [](pickle::Writer& out, int i) {
        out.begin_dict();
        out.key(i ? "a" : "b");
        out.integer(1);
        out.end_dict();
      },
      [](pickle::Writer& out, int i) {
        out.begin_list();
        for (int k = 0; k < i; ++k) out.integer(1);
        out.end_list();
      },
      [](pickle::Writer& out, int i) {
        put_molecule(out, 2);
        out.key("forces");
        put_array(out, {2, i + 1});
        out.end_dict();
      },
      [](pickle::Writer& out, int i) {
        put_molecule(out, 2);
        out.key("energy");
        i ? out.real(1) : out.none();
        out.end_dict();
      },
  };
  for (size_t k = 0; k < odd.size(); ++k) EXPECT_FALSE(Planned(2, odd[k])) << k;
  EXPECT_FALSE(Planned(0, odd[0]));
}

TEST(ExamplePlan, MoleculesShareTheArena) {
  const Planned batch(3, [](pickle::Writer& out, int i) {
    out.begin_list();
    put_molecule(out, i + 1);
    out.end_dict();
    put_molecule(out, 2);
    out.end_dict();
    out.integer(i);
    out.end_list();
  });
  ASSERT_TRUE(batch);
  ASSERT_EQ(batch.plan().molecules.size(), 2u);
  EXPECT_EQ(batch.root().children[1].form, Form::molecules);
  EXPECT_EQ(batch.root().children[1].molecules, 1u);
  const MoleculesPlan &first = batch.plan().molecules[0], &second = batch.plan().molecules[1];
  EXPECT_EQ(first.batch.ptr, (std::vector<int64_t>{0, 1, 3, 6}));
  EXPECT_EQ(first.numbers, (std::vector<int64_t>{0, 10, 20}));
  EXPECT_EQ(first.batch.core.positions, 0u);
  EXPECT_GE(second.batch.core.positions, first.batch.core.index + 3 * sizeof(int64_t));
  EXPECT_GT(batch.leaf(0).offset, second.batch.core.positions);
}

// Molecules of 0, 1, 2 ... atoms, and the plan of their batch.
class PlannedMolecules {
 public:
  PlannedMolecules(int n, const std::function<void(pickle::Writer&, int)>& write)
      : pickled_(n, [&](pickle::Writer& out, int i) {
          out.begin_dict();
          test::put_geometry(out, i, i % 2 == 0 ? 4 : 8);
          write(out, i);
          out.end_dict();
        }) {
    std::vector<int64_t> numbers;
    for (int i = 0; i < n; ++i) numbers.push_back(i);
    plan = plan_molecules(pickled_.values(), numbers, {{"per_atom", true}}, arena);
  }

  const FieldPlan& field(size_t i) const { return plan->batch.fields[i]; }

  ArenaLayout arena;
  std::optional<MoleculesPlan> plan;

 private:
  Pickled pickled_;
};

TEST(ExampleMolecules, WidthsMix) {
  const PlannedMolecules batch(3, [](pickle::Writer& out, int i) {
    out.key("x");
    put_array(out, {2}, i == 1 ? 4 : 8);
    out.key("n");
    put_array(out, {2}, i == 1 ? 1 : 2, ElementKind::signed_integer);
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
    put_array(out, {});
    out.key("v");
    put_array(out, {2});
  });
  EXPECT_EQ(batch.field(0).stored, DType::float32);
  EXPECT_EQ(batch.field(0).type.dtype, DType::float64);
  EXPECT_EQ(batch.field(1).type.dtype, DType::float32);
}

TEST(ExampleMolecules, RowsOfNoAtomsMeanNothing) {
  const PlannedMolecules batch(3, [](pickle::Writer& out, int i) {
    out.key("per_atom");
    put_array(out, {i, i == 0 ? 7 : 2});
    out.key("v");
    put_array(out, {i + 1});
  });
  EXPECT_FALSE(batch.field(0).ragged);
  EXPECT_EQ(batch.field(0).row_shape, Shape{2});
  EXPECT_TRUE(batch.field(1).ragged);
}

TEST(ExampleMolecules, LabelsOfNoAtomsAreOneTensor) {
  const PlannedMolecules batch(2, [](pickle::Writer& out, int i) {
    if (i != 0) return;
    out.key("forces");
    put_array(out, {0, 3});
  });
  EXPECT_FALSE(batch.field(0).ragged);
  EXPECT_EQ(batch.field(0).row_shape, Shape{3});
}

}  // namespace
}  // namespace atompack::plan
