// Verification: reads every record of a source with all checks; faults are collected, not thrown.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "passes/sweep.h"
#include "plan/request.h"

namespace atompack::passes {

struct MoleculeFault {
  int64_t molecule;
  std::string message;
};

struct Findings {
  int64_t n_faults = 0;
  std::vector<MoleculeFault> faults;  // in order of molecules; at most the first kMaxListed of each
  int64_t decoded_bytes = 0;
  // Number of molecules that store NaN or infinity, by field: valid, but rarely intended. Positions are a builtin
  // field.
  std::map<plan::FieldId, int64_t> non_finite;

  void join(Findings&& other);
};

class Verifier {
 public:
  Verifier(std::shared_ptr<const MoleculeSource> source, int n_threads)
      : sweep_(std::move(source), std::nullopt, n_threads) {}

  int64_t size() const { return sweep_.size(); }

  // Runs for a while; returns the number of molecules processed so far. Throws errors of the file as a whole: it shrank
  // or can no longer be read.
  int64_t advance();

  // Returns what was found since the last call, so that the messages of a badly damaged file need not all be kept in
  // memory.
  Findings take() { return std::exchange(found_, {}); }

 private:
  Sweep sweep_;
  Findings found_;
};

}  // namespace atompack::passes
