#include <cstdio>
#include <cstdlib>

#include "targets.h"

namespace atompack::fuzz {

void require(bool promise, std::string_view what) {
  if (promise) return;
  std::fprintf(stderr, "broken promise: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace atompack::fuzz
