#include "threads/interruption.h"

#include <atomic>

namespace atompack::io {
namespace {

std::atomic<InterruptionCheck> interruption_check{nullptr};

}  // namespace

void set_interruption_check(InterruptionCheck check) { interruption_check = check; }

void check_for_interruption() {
  if (const InterruptionCheck check = interruption_check) check();
}

}  // namespace atompack::io
