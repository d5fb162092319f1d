// Interruption of calls that wait, such as by Ctrl-C.
#pragma once

namespace atompack::io {

// Called about every 100 ms while a call waits; throws to end the call. Set once, by the bindings.
using InterruptionCheck = void (*)();
void set_interruption_check(InterruptionCheck check);
void check_for_interruption();

}  // namespace atompack::io
