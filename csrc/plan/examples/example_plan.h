// What a batch of examples will hold, and where: worked out before anything is copied.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "model/value.h"
#include "plan/arena_layout.h"
#include "plan/examples/example_molecules.h"

namespace atompack::collate {

// A tensor of the batch, and what it is made of.
struct Leaf {
  struct Part {
    Value value;
    size_t at;      // byte in the tensor
    size_t length;  // in bytes, as they will lie there
  };

  DType dtype = DType::int64;
  std::vector<int64_t> shape = {};
  size_t offset = 0;                    // in the arena
  std::vector<Part> parts = {};         // of this dtype
  std::vector<std::byte> content = {};  // in place of parts

  size_t bytes() const;
};

struct ExampleNode;

// A batch has the form of its examples, turned inside out: a dict of batches in place of dicts.
struct ExampleNode {
  enum class Form : uint8_t {
    tensor,     // leaf
    tensors,    // leaves, one an example
    jagged,     // two leaves: rows one after another, and where those of each example begin
    texts,      // one an example
    bytes,      // texts of bytes
    dict,       // keys and children
    list,       // children
    molecules,  // their number among those of the plan
  };
  Form form = Form::tensor;
  std::vector<size_t> leaves = {};
  std::vector<std::string> texts = {};
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

// Nothing where examples differ in more than what the forms allow; what to make of those is not decided here.
// `numbers` are those of the examples in the data set. Arrays that differ in their first dimension become jagged
// where that is asked for, and otherwise, as all that differ in shape, a tensor each.
std::optional<ExamplePlan> plan_examples(std::span<const Value> examples, std::span<const int64_t> numbers,
                                         const KeyLevels& levels, bool jagged);

}  // namespace atompack::collate
