// The last look at what a pickle has made, before anyone else sees it.
#pragma once

#include "serial/pickle/state.h"

namespace atompack::pickle {

// Throws where the tree below `root` holds what is no value, is deeper or larger than the limits, or has a dict key
// that cannot be one.
void check_values(const State& state, const Cell& root);

// A key that comes again keeps its first place and takes its last value. Call after check_values().
void settle_dicts(State& state);

}  // namespace atompack::pickle
