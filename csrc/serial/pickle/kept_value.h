// Value that outlives the machine's next run.
#pragma once

#include <memory>

#include "model/value.h"
#include "serial/pickle/state.h"

namespace atompack::pickle {

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

}  // namespace atompack::pickle
