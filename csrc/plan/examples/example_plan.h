// What a batch of examples will hold, and where: worked out before anything is copied.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "model/value.h"
#include "plan/arena_layout.h"

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
  std::vector<Part> parts = {};         // converted to the dtype
  std::vector<std::byte> content = {};  // in place of parts
  bool has_gaps = false;                // parts leave out what is missing
  bool gaps_are_zero = false;           // else NaN, where the dtype has it

  size_t bytes() const;
};

struct ExampleNode;

// A field of molecules: of a scope and a key (fields.py), with rows for atoms or molecules.
struct MoleculeField {
  int scope = 0;
  std::string key;
  bool per_atom = false;
};

// A batch has the form of its examples, turned inside out: a dict of batches in place of dicts.
struct ExampleNode {
  enum class Form : uint8_t {
    tensor,     // leaf
    tensors,    // leaves, one an example; nothing where there is none
    jagged,     // two leaves: rows one after another, and where those of each example begin
    texts,      // one an example; nothing where there is none
    bytes,      // texts of bytes
    dict,       // keys and children
    list,       // children
    molecules,  // fields, with a child each behind those of the structure, then the masks
  };
  Form form = Form::tensor;
  std::vector<std::optional<size_t>> leaves = {};
  std::vector<std::optional<std::string>> texts = {};
  std::vector<std::string> keys = {};
  std::vector<MoleculeField> fields = {};
  std::vector<ExampleNode> children = {};
};

// For each key of molecules that no format knows: whether it has rows for atoms.
using KeyLevels = std::map<std::string, bool, std::less<>>;

struct ExamplePlan {
  ExampleNode root;
  std::vector<Leaf> leaves;
  ArenaLayout arena;
};

// Nothing where examples differ in more than what the forms allow; what to make of those is not decided here.
// `numbers` are those of the examples in the data set. Arrays that differ in their first dimension become jagged
// where that is asked for, and otherwise, as all that differ in shape, a tensor each.
std::optional<ExamplePlan> plan_examples(std::span<const Value> examples, std::span<const int64_t> numbers,
                                         const KeyLevels& levels, bool jagged);

// Whether there is a dict with positions and atomic numbers in it.
bool has_molecules(const Value& example);

// Adds what these examples tell of the keys of molecules: a key whose arrays have as many rows as atoms in each of them
// is one of atoms.
void learn_levels(std::span<const Value> examples, KeyLevels& levels);

}  // namespace atompack::collate
