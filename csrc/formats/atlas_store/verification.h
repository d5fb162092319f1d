// Verification: reads everything of a store to find damage.
#pragma once

#include <memory>
#include <vector>

#include "formats/atlas_store/store.h"

namespace atompack::atlas_store {

// Reads files by pread: truncation during the pass is an error, not a signal. For one thread at a time.
class Verification {
 public:
  explicit Verification(std::shared_ptr<const Store> store);

  // Checks the array of one dataset for everything that reading it would report. Throws the error found; FieldError if
  // the dataset has none.
  void check(uint32_t variable, uint32_t dataset);

 private:
  std::shared_ptr<const Store> store_;
  std::vector<std::unique_ptr<const array_file::Reader>> readers_;  // by variable, created on demand
  array_file::DecodedBlock last_;
};

}  // namespace atompack::atlas_store
