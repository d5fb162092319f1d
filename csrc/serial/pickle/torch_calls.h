// torch's functions in pickles (csrc/serial/pickle/FORMAT.md#torch).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/value.h"
#include "serial/pickle/state.h"

namespace atompack::pickle {

// torch's legacy save stream, which holds the storage of every pickled tensor.
inline constexpr int64_t kStreamProtocol = 1001;

// Encodes the elements of `array` in C order as one storage. UnsupportedFormatError if torch has no such storage.
std::vector<std::byte> encode_storage(const Array& array);

class Interpreter;

// Reads the storage in `blob`, a legacy save stream: five pickles for `stream`, an interpreter of storage streams, then
// the data.
Cell torch_load_from_bytes(State& state, Interpreter& stream, Bytes blob);

// The persistent id by which the fourth pickle names the storage.
Cell torch_storage(State& state, const Cell& persistent_id);

Cell torch_rebuild_tensor(State& state, std::span<const Cell> arguments);

}  // namespace atompack::pickle
