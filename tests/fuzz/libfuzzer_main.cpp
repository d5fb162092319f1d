// The entry points of libFuzzer for one target, chosen by ATOMPACK_FUZZ_TARGET (its number in kTargets).
#include "targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  atompack::fuzz::kTargets[ATOMPACK_FUZZ_TARGET].run(std::as_bytes(std::span(data, size)));
  return 0;
}
