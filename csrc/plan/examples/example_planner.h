// The steps of planning a batch of examples; for example_plan.cpp and molecule_plan.cpp.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "plan/examples/example_plan.h"

namespace atompack::collate {

// Thrown, and caught by plan_examples(), where examples are not alike.
struct NotAlike {};

// What arrays, scalars and numbers of Python are as tensors.
struct TensorType {
  DType dtype;
  std::span<const int64_t> shape;  // in the tree of the value
  bool operator==(const TensorType& other) const;
  size_t bytes() const;
};

// Throws NotAlike for what is no tensor, or one with a gradient.
TensorType tensor_type(const Value& value);

bool is_molecule(const Value& value);

class ExamplePlanner {
 public:
  ExamplePlanner(ExamplePlan& plan, std::span<const int64_t> numbers, const KeyLevels& levels, bool jagged)
      : plan_(plan), numbers_(numbers), levels_(levels), jagged_(jagged) {}

  // Of one value an example.
  ExampleNode plan(std::span<const Value> column);

  // A leaf's number. It takes its place in the arena.
  size_t add(Leaf leaf);

 private:
  ExampleNode plan_tensors(std::span<const Value> column);
  ExampleNode plan_unequal(std::span<const Value> column, std::span<const TensorType> types);
  ExampleNode plan_jagged(std::span<const Value> column, std::span<const TensorType> types);
  ExampleNode plan_dict(std::span<const Value> column);
  ExampleNode plan_list(std::span<const Value> column);
  ExampleNode plan_molecules(std::span<const Value> column);

  ExamplePlan& plan_;
  std::span<const int64_t> numbers_;
  const KeyLevels& levels_;
  bool jagged_;
};

Leaf leaf_of(std::span<const int64_t> content);

}  // namespace atompack::collate
