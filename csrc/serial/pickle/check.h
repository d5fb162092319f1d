// Final checks on the value tree of a pickle.
#pragma once

#include "serial/pickle/state.h"

namespace atompack::pickle {

// Throws if the tree below `root` holds anything but values, exceeds the limits on depth or size, or has an invalid
// dict key.
void check_values(const State& state, const Cell& root);

// Removes duplicate keys: a repeated key keeps its first position and takes its last value. Call after check_values().
void remove_duplicate_keys(State& state);

}  // namespace atompack::pickle
