#include "plan/examples/example_plan.h"

#include <cstring>
#include <vector>

#include "base/error.h"
#include "serial/pickle/machine.h"
#include "targets.h"

namespace atompack::fuzz {
namespace {

using collate::ExampleNode;
using collate::ExamplePlan;
using collate::Leaf;
using Form = ExampleNode::Form;

constexpr pickle::Limits kLimits = {.max_depth = 32, .max_values = 1 << 14, .max_bytes = 1 << 16};
constexpr size_t kStructure = 6, kAlignment = 64;

// Parts lie one behind the other; without gaps they fill their leaf.
void check_parts(const Leaf& leaf) {
  size_t end = 0, filled = leaf.content.size();
  for (const Leaf::Part& part : leaf.parts) {
    require(part.at >= end, "parts do not overlap");
    const uint64_t n = part.value.has_array() ? part.value.array().size() : 1;
    require(part.length == n * item_bytes(leaf.dtype), "a part has room for its values");
    end = part.at + part.length;
    filled += part.length;
  }
  require(end <= leaf.bytes(), "parts lie in their leaf");
  require(filled == leaf.bytes() || (leaf.has_gaps && filled < leaf.bytes()), "every byte is written");
}

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
    for (const auto& leaf : node.leaves) use(leaf);
    for (const ExampleNode& child : node.children) check(child);
    switch (node.form) {
      case Form::tensor:
        return require(node.leaves.size() == 1 || !node.leaves.front(), "a tensor is one");
      case Form::tensors:
        return require(node.leaves.size() == n_, "a list has one tensor an example");
      case Form::jagged:
        return check_jagged(node);
      case Form::texts:
      case Form::bytes:
        return require(node.texts.size() == n_, "a list has one text an example");
      case Form::dict:
        return require(node.keys.size() == node.children.size(), "each key has a value");
      case Form::list:
        return require(node.leaves.empty(), "a list has children alone");
      case Form::molecules:
        require(node.fields.size() == node.children.size(), "each field has a value");
        return require(node.leaves.size() == kStructure + 1, "molecules have a structure and masks");
    }
  }

  void use(const std::optional<size_t>& leaf) {
    if (!leaf) return;
    require(*leaf < used_.size() && !used_[*leaf], "a leaf is used once");
    used_[*leaf] = true;
  }

  void check_jagged(const ExampleNode& node) const {
    require(node.leaves.size() == 2, "jagged are rows and offsets");
    const Leaf &rows = plan_.leaves[*node.leaves[0]], &offsets = plan_.leaves[*node.leaves[1]];
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
    collate::has_molecules(examples.back());
  }
  collate::KeyLevels levels;
  if (learns) collate::learn_levels(examples, levels);
  const auto plan = collate::plan_examples(examples, numbers, levels, jagged);
  if (plan) PlanCheck(*plan, examples.size()).run();
}

}  // namespace

void plan_batch(Bytes input) {
  static pickle::Machine machine({}, kLimits);
  if (input.empty()) return;
  const auto flags = static_cast<uint8_t>(input.front());
  try {
    const Value list = machine.run(input.subspan(1));
    if (list.kind() == Kind::list) plan_list(list, (flags & 1) != 0, (flags & 2) != 0);
  } catch (const CorruptFileError&) {
    return;  // the named end of bytes that make no pickle, or no batch
  } catch (const UnsafePickleError&) {
    return;
  } catch (const UnsupportedFormatError&) {
    return;
  }
}

}  // namespace atompack::fuzz
