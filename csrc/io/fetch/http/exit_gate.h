// Stops native threads from using OpenSSL while the process ends.
#pragma once

#include <shared_mutex>

namespace atompack::io::fetch::http {

// Registers closing of the gate with std::atexit, once. Must be called after OpenSSL has registered its own clean-up,
// which then runs later.
void close_gate_at_exit();

bool is_gate_closed();

// To be held by a thread while it uses OpenSSL; blocks for ever once the gate is closed.
std::shared_lock<std::shared_mutex> pass_gate();

}  // namespace atompack::io::fetch::http
