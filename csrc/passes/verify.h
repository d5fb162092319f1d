// Verification: reads every record of a source with all checks; faults are collected, not thrown.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "passes/sweep.h"
#include "plan/molecules/request.h"

namespace atompack::collate {

struct MoleculeFault {
  int64_t molecule;
  std::string message;
};

struct Findings {
  int64_t n_faults = 0;
  std::vector<MoleculeFault> faults;  // in order of molecules; of one molecule the first kMostListed
  int64_t decoded_bytes = 0;
  // Molecules that store NaN or infinity, by field: legal, but seldom meant. Positions are a builtin of that name.
  std::map<FieldId, int64_t> non_finite;

  void join(Findings&& other);
};

class Verifier {
 public:
  Verifier(std::shared_ptr<const MoleculeSource> source, int n_threads)
      : sweep_(std::move(source), std::nullopt, n_threads) {}

  int64_t size() const { return sweep_.size(); }

  // Goes on for a while; returns how many molecules are done. Throws what concerns the file as a whole: it shrank, or
  // cannot be read any more.
  int64_t advance();

  // What was found since the last call, so that a hopeless file need not be held in memory as messages.
  Findings take() { return std::exchange(found_, {}); }

 private:
  Sweep sweep_;
  Findings found_;
};

}  // namespace atompack::collate
