// REDUCE, NEWOBJ and BUILD: calls of globals, and setting the state of their results.
#pragma once

#include "serial/pickle/opcodes.h"
#include "serial/pickle/state.h"

namespace atompack::pickle {

class Interpreter;

// `stream` reads torch's storages; nullptr inside a storage stream, where calls are not allowed.
Cell call(State& state, Interpreter* stream, const Cell& callable, const Cell& arguments);
Cell new_object(State& state, const Cell& record_class, const Cell& arguments);
void build(State& state, const Cell& object, const Cell& build_state);

inline Cell cell_of(const Meaning& meaning) {
  Cell cell = Cell::make(kGlobal, static_cast<uint64_t>(meaning.global));
  cell.size = meaning.number;
  return cell;
}

inline bool is_global(const Cell& cell, Global global) {
  return cell.kind() == kGlobal && cell.node == static_cast<uint64_t>(global);
}

}  // namespace atompack::pickle
