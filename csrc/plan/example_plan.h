// Plan of a batch of examples, before data is copied.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "model/sources/value_molecules.h"
#include "model/value.h"
#include "plan/arena_layout.h"
#include "plan/batch_plan.h"
#include "plan/field_set.h"

namespace atompack::plan {

// Plan of the molecules among the values of examples: one batch in the arena of the whole batch.

struct MoleculesPlan {
  std::unique_ptr<const ValueMolecules> source;
  std::unique_ptr<const FieldSet> fields;
  BatchPlan batch;               // indices refer to `source`
  std::vector<int64_t> numbers;  // indices of the examples in the dataset
};

// Plans a batch of one dict per example. Returns nullopt if the dicts are not molecules, hold values that no field can,
// or have types that do not mix.
std::optional<MoleculesPlan> plan_molecules(std::span<const Value> dicts, std::span<const int64_t> numbers,
                                            const KeyLevels& levels, ArenaLayout& arena);

// Plan of a batch of examples: form, types, shapes and offsets of its tensors, before anything is copied.

// Tensor of the batch and its contents.
struct Leaf {
  struct Part {
    Value value;
    size_t offset;  // in the tensor, in bytes
    size_t length;  // in the tensor, in bytes
  };

  DType dtype = DType::int64;
  std::vector<int64_t> shape = {};
  size_t offset = 0;                    // in the arena
  std::vector<Part> parts = {};         // all of this dtype
  std::vector<std::byte> content = {};  // bytes to copy if there are no parts

  size_t bytes() const;
};

struct ExampleNode;

// Node of the tree that a batch of examples forms. It has the structure of one example with a batch at each leaf: dicts
// become one dict of batches.
struct ExampleNode {
  enum class Form : uint8_t {
    tensor,     // one leaf
    tensors,    // one leaf per example
    jagged,     // two leaves: concatenated rows, and the offset of the first row of each example
    strings,    // one per example
    bytes,      // in `strings`, one per example
    dict,       // keys and children
    list,       // children
    molecules,  // index in ExamplePlan::molecules
  };
  Form form = Form::tensor;
  std::vector<size_t> leaves = {};
  std::vector<std::string> strings = {};
  std::vector<std::string> keys = {};
  std::vector<ExampleNode> children = {};
  size_t molecules = 0;
};

struct ExamplePlan {
  ExampleNode root;
  std::vector<Leaf> leaves;
  std::vector<MoleculesPlan> molecules;
  ArenaLayout arena;
};

// Plans a batch; returns nullopt if the examples differ in ways that no form allows. `numbers` are the indices of the
// examples in the dataset. Arrays that differ only in their first dimension become jagged if `jagged`; all other
// arrays that differ in shape become one tensor per example.
std::optional<ExamplePlan> plan_examples(std::span<const Value> examples, std::span<const int64_t> numbers,
                                         const KeyLevels& levels, bool jagged);

}  // namespace atompack::plan
