#include "serial/pickle/machine.h"

#include <algorithm>
#include <utility>

#include "serial/pickle/check.h"

namespace atompack::pickle {
namespace {

// Node numbers have 32 bits.
constexpr uint64_t kMaxValues = uint64_t{1} << 26;

}  // namespace

Machine::Machine(std::span<const RecordClass> classes, const Limits& limits)
    : classes_(classes.begin(), classes.end()), stream_(state_, {}, nullptr), values_(state_, classes_, &stream_) {
  state_.classes = classes_;
  state_.limits = limits;
  state_.limits.max_values = std::min(limits.max_values, kMaxValues);
  for (const RecordClass& known : classes_) state_.tree.class_names.push_back(cat(known.module, '.', known.name));
}

Value Machine::run(Bytes block) {
  state_.tree.clear();
  state_.storages.clear();
  state_.decoded.clear();
  state_.block = block;
  ByteCursor cursor(block);
  const Cell root = values_.run(cursor);
  check_values(state_, root);
  remove_duplicate_keys(state_);
  return {state_.tree, root};
}

// Copies the tree at its exact size; the machine keeps its own memory.
KeptValue Machine::run_and_keep(Bytes block) {
  const Value value = run(block);
  return {std::make_unique<const ValueTree>(state_.tree), std::exchange(state_.decoded, {}), value.cell()};
}

}  // namespace atompack::pickle
