// torch's functions in pickles (csrc/serial/pickle/FORMAT.md#torch).
#pragma once

#include <span>

#include "serial/pickle/state.h"

namespace atompack::pickle {

class Interpreter;

// Reads the storage in `blob`, a legacy save stream: five pickles for `stream`, an interpreter of storage streams, then
// the data.
Cell torch_load_from_bytes(State& state, Interpreter& stream, Bytes blob);

// The persistent id by which the fourth pickle names the storage.
Cell torch_storage(State& state, const Cell& persistent_id);

Cell torch_rebuild_tensor(State& state, std::span<const Cell> arguments);

}  // namespace atompack::pickle
