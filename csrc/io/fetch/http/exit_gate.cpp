#include "io/fetch/http/exit_gate.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>

#include "threads/per_process.h"

namespace atompack::io::fetch::http {
namespace {

std::atomic<bool> is_closed{false};

// Never destroyed: threads may wait at it until the process is gone. A fork has its own: the parent's may be held by a
// thread that the fork does not have.
std::shared_mutex& gate() {
  static const auto* const made = new PerProcess<std::shared_mutex>([] { return std::make_unique<std::shared_mutex>(); });
  return made->get();
}

void close_gate() {
  is_closed.store(true);
  gate().lock();
}

}  // namespace

void close_gate_at_exit() {
  static const int code = std::atexit(&close_gate);
  static_cast<void>(code);
}

bool is_gate_closed() { return is_closed.load(); }

std::shared_lock<std::shared_mutex> pass_gate() {
  while (is_gate_closed()) ::pause();
  return std::shared_lock(gate());
}

}  // namespace atompack::io::fetch::http
