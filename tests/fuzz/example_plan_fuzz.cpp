#include "plan/example_plan.h"

#include <cstring>
#include <vector>

#include "serial/pickle/machine.h"
#include "targets.h"

namespace atompack::fuzz {
namespace {

using plan::ExampleNode;
using plan::ExamplePlan;
using plan::Leaf;
using Form = ExampleNode::Form;

constexpr pickle::Limits kLimits = {.max_depth = 32, .max_values = 1 << 14, .max_bytes = 1 << 16};
constexpr size_t kAlignment = 64;

// Parts follow each other and fill their leaf.
void check_parts(const Leaf& leaf) {
  size_t end = 0, filled = leaf.content.size();
  for (const Leaf::Part& part : leaf.parts) {
    require(part.offset >= end, "parts do not overlap");
    const uint64_t n = part.value.has_array() ? part.value.array().size() : 1;
    require(part.length == n * item_bytes(leaf.dtype), "a part has room for its values");
    end = part.offset + part.length;
    filled += part.length;
  }
  require(end <= leaf.bytes(), "parts lie in their leaf");
  require(filled == leaf.bytes(), "every byte is written");
}

class FieldCheck final : public MoleculeVisitor {
 public:
  FieldCheck(const plan::BatchPlan& plan, size_t molecule) : plan_(plan), molecule_(molecule) {}

  void geometry(const Geometry& geometry) override {
    require(geometry.n_atoms == plan_.n_rows(Level::atom, molecule_), "the plan knows the atoms");
    const auto n = static_cast<size_t>(geometry.n_atoms);
    require(geometry.positions.size() == 3 * n * item_bytes(geometry.positions_dtype), "three numbers an atom");
    require(geometry.numbers.size() == n * item_bytes(geometry.numbers_dtype), "one number an atom");
    touch(geometry.positions);
    touch(geometry.numbers);
  }
  void field(const FieldView& view, Bytes data) override {
    touch(data);
    const plan::FieldPlan& field = plan_.fields.at(static_cast<size_t>(view.declaration));
    require(view.type.kind == field.type.kind, "kinds do not mix");
    if (view.type.kind != ValueKind::numeric) return;
    const int64_t rows = plan_.n_rows(view.type.level, molecule_);
    require(data.size() == static_cast<size_t>(rows * view.row_shape.numel()) * item_bytes(view.type.dtype),
            "data is as long as its shape says");
    const Shape& planned = field.ragged ? field.rows.at(molecule_).row_shape : field.row_shape;
    require(rows == 0 || planned == view.row_shape, "rows fit their place");
  }

 private:
  // Reads each byte, for the sanitizers.
  static void touch(Bytes data) {
    std::byte all{0};
    for (const std::byte byte : data) all ^= byte;
    static volatile std::byte seen;
    seen = all;
    static_cast<void>(seen);
  }

  const plan::BatchPlan& plan_;
  size_t molecule_;
};

class PlanCheck {
 public:
  PlanCheck(const ExamplePlan& plan, size_t n_examples) : plan_(plan), n_(n_examples), used_(plan.leaves.size()) {}

  void run() {
    size_t end = 0;
    for (const Leaf& leaf : plan_.leaves) {
      require(leaf.offset >= end && leaf.offset % kAlignment == 0, "leaves are aligned and do not overlap");
      end = leaf.offset + leaf.bytes();
      check_parts(leaf);
    }
    require(end <= plan_.arena.size(), "leaves lie in the arena");
    check(plan_.root);
    for (const bool used : used_) require(used, "each leaf has a place in the batch");
  }

 private:
  void check(const ExampleNode& node) {
    for (const size_t leaf : node.leaves) use(leaf);
    for (const ExampleNode& child : node.children) check(child);
    switch (node.form) {
      case Form::tensor:
        return require(node.leaves.size() == 1, "a tensor is one");
      case Form::tensors:
        return require(node.leaves.size() == n_, "a list has one tensor an example");
      case Form::jagged:
        return check_jagged(node);
      case Form::strings:
      case Form::bytes:
        return require(node.strings.size() == n_, "a list has one text an example");
      case Form::dict:
        return require(node.keys.size() == node.children.size(), "each key has a value");
      case Form::list:
        return require(node.leaves.empty(), "a list has children alone");
      case Form::molecules:
        return check_molecules(plan_.molecules.at(node.molecules));
    }
  }

  void use(size_t leaf) {
    require(leaf < used_.size() && !used_[leaf], "a leaf is used once");
    used_[leaf] = true;
  }

  // Every value has the rows that its field has in the plan.
  void check_molecules(const plan::MoleculesPlan& plan) const {
    require(plan.batch.indices.size() == n_, "each example is a molecule");
    require(plan.batch.core.masks + plan.batch.fields.size() * n_ <= plan_.arena.size(), "outputs lie in the arena");
    std::vector<std::byte> scratch;
    for (int64_t i = 0; i < plan.source->size(); ++i) {
      scratch.resize(static_cast<size_t>(plan.source->extent(i).decoded_bytes));
      FieldCheck check(plan.batch, static_cast<size_t>(i));
      plan.source->visit(i, plan.source->decode(i, scratch), check);
    }
  }

  void check_jagged(const ExampleNode& node) const {
    require(node.leaves.size() == 2, "jagged are rows and offsets");
    const Leaf &rows = plan_.leaves[node.leaves[0]], &offsets = plan_.leaves[node.leaves[1]];
    require(offsets.shape.front() == static_cast<int64_t>(n_ + 1), "each example has its rows");
    int64_t last = 0;
    std::memcpy(&last, &offsets.content[n_ * sizeof(last)], sizeof(last));
    require(last == rows.shape.front(), "rows end where the last example does");
  }

  const ExamplePlan& plan_;
  size_t n_;
  std::vector<bool> used_;
};

void plan_list(const Value& list, bool jagged, bool learns) {
  std::vector<Value> examples;
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < list.size(); ++i) {
    examples.push_back(list.item(i));
    numbers.push_back(static_cast<int64_t>(i));
    has_molecules(examples.back());
  }
  KeyLevels levels;
  if (learns) learn_levels(examples, levels);
  const auto plan = plan::plan_examples(examples, numbers, levels, jagged);
  if (plan) PlanCheck(*plan, examples.size()).run();
}

}  // namespace

void plan_batch(Bytes input) {
  static pickle::Machine machine({}, kLimits);
  if (input.empty()) return;
  const auto flags = static_cast<uint8_t>(input.front());
  allowing_damage([&] {
    const Value list = machine.run(input.subspan(1));
    if (list.kind() == Kind::list) plan_list(list, (flags & 1) != 0, (flags & 2) != 0);
  });
}

}  // namespace atompack::fuzz
