// Reader of pickles as data: nothing is imported or called (FORMAT.md).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/value.h"
#include "serial/pickle/interpreter.h"
#include "serial/pickle/opcodes.h"
#include "serial/pickle/state.h"

namespace atompack::pickle {

// Value that outlives the machine's next run.

// Owns the tree; the block that it was read from must outlive it. Const methods are thread-safe.
class KeptValue {
 public:
  KeptValue(std::unique_ptr<const ValueTree> tree, DecodedBytes decoded, const Cell& root)
      : tree_(std::move(tree)), decoded_(std::move(decoded)), root_(root) {}

  Value value() const { return {*tree_, root_}; }
  // Memory in use, without the block.
  uint64_t bytes() const { return tree_->bytes() + decoded_.used(); }

 private:
  std::unique_ptr<const ValueTree> tree_;  // on the heap, since values refer to it by address
  DecodedBytes decoded_;
  Cell root_;
};

// Final checks on the value tree of a pickle.

// Throws if the tree below `root` holds anything but values, exceeds the limits on depth or size, or has an invalid
// dict key.
void check_values(const State& state, const Cell& root);

// Removes duplicate keys: a repeated key keeps its first position and takes its last value. Call after check_values().
void remove_duplicate_keys(State& state);

// Keeps its memory from block to block. For one thread at a time.
class Machine {
 public:
  // Objects of `classes` are read as records; any other class is an UnsafePickleError that names it.
  explicit Machine(std::span<const RecordClass> classes = {}, const Limits& limits = {});
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Returns the value of the pickle at the front of `block` and ignores the bytes after it. The tree is within the
  // limits and valid until the next call, at most as long as `block`. Throws UnsafePickleError for anything but data,
  // CorruptFileError for inconsistent pickles, UnsupportedFormatError for protocols other than 2 to 5.
  Value run(Bytes block);

  // The same, for a value that stays valid after the next call.
  KeptValue run_and_keep(Bytes block);

 private:
  std::vector<RecordClass> classes_;
  State state_;
  Interpreter stream_, values_;
};

}  // namespace atompack::pickle
