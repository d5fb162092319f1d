#include "passes/sweep.h"

#include <numeric>

namespace atompack::passes {

void visit_molecule(const MoleculeSource& source, int64_t index, std::vector<std::byte>& scratch,
                    MoleculeVisitor& visitor) {
  source.visit(index, decode(source, index, source.extent(index), scratch), visitor);
}

std::vector<int64_t> Sweep::numbers(int64_t first, int64_t last) const {
  std::vector<int64_t> all(static_cast<size_t>(last - first));
  if (selection_) {
    std::copy_n(selection_->numbers.begin() + first, all.size(), all.begin());
  } else {
    std::iota(all.begin(), all.end(), first);
  }
  return all;
}

}  // namespace atompack::passes
