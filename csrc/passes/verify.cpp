#include "passes/verify.h"

#include <set>

namespace atompack::passes {
namespace {

constexpr int64_t kMaxListed = 100;  // a record of 64 kB can hold ten thousand damaged values

// In NaN and infinity all exponent bits are set.
template <typename Bits, Bits kExponent>
bool any_non_finite(const std::byte* from, size_t count) {
  bool found = false;
  for (size_t i = 0; i < count; ++i) found |= (load_le<Bits>(from + i * sizeof(Bits)) & kExponent) == kExponent;
  return found;
}

bool has_non_finite(DType dtype, Bytes data) {
  if (dtype == DType::float32) return any_non_finite<uint32_t, 0x7F800000U>(data.data(), data.size() / sizeof(float));
  if (dtype != DType::float64) return false;
  return any_non_finite<uint64_t, 0x7FF0000000000000U>(data.data(), data.size() / sizeof(double));
}

class Checker final : public MoleculeVisitor {
 public:
  explicit Checker(const MoleculeSource& source) : source_(source) {}

  void check(int64_t index, std::vector<std::byte>& scratch) {
    index_ = index;
    n_of_molecule_ = 0;
    ++serial_;
    unlisted_.clear();
    try {
      visit_molecule(source_, index, scratch, *this);
      found.decoded_bytes += source_.extent(index).decoded_bytes;
    } catch (const DataError& error) {
      report(error);
    }
  }

  void geometry(const Geometry& geometry) override {
    if (has_non_finite(geometry.positions_dtype, geometry.positions)) {
      ++found.non_finite[{Scope::builtin, "positions"}];
    }
  }

  void field(const FieldView& view, Bytes data) override {
    if (view.fault != nullptr) return report_at_place(*view.fault);
    if (view.scope != Scope::builtin && is_repeated(view)) {
      CorruptFileError error("duplicate key");
      return report_at_place(error.at_field(view.key));
    }
    if (has_non_finite(view.type.dtype, data)) ++found.non_finite[{view.scope, std::string(view.key)}];
  }

  Findings found;

 private:
  void report(const DataError& error) {
    ++found.n_faults;
    if (++n_of_molecule_ <= kMaxListed) found.faults.push_back({index_, error.what()});
  }

  bool is_repeated(const FieldView& view) {
    if (view.declaration < 0) return !unlisted_.insert({view.scope, view.key}).second;
    const auto place = static_cast<size_t>(view.declaration);
    if (place >= last_seen_.size()) last_seen_.resize(place + 1);
    return std::exchange(last_seen_[place], serial_) == serial_;
  }

  // For an error that has not passed through the source yet: the molecule's other fields are still checked.
  void report_at_place(CorruptFileError error) {
    source_.locate(error, index_);
    report(error);
  }

  const MoleculeSource& source_;
  int64_t index_ = 0;
  int64_t n_of_molecule_ = 0;
  int64_t serial_ = 0;
  std::vector<int64_t> last_seen_;                         // per declaration: the last molecule that had it
  std::set<std::pair<Scope, std::string_view>> unlisted_;  // of this molecule; keys are views of its record
};

}  // namespace

void Findings::join(Findings&& other) {
  n_faults += other.n_faults;
  for (MoleculeFault& fault : other.faults) faults.push_back(std::move(fault));
  decoded_bytes += other.decoded_bytes;
  for (const auto& [field, molecules] : other.non_finite) non_finite[field] += molecules;
}

int64_t Verifier::advance() {
  const auto look = [](Checker& checker, int64_t index, std::vector<std::byte>& scratch) {
    checker.check(index, scratch);
  };
  return sweep_.advance(Checker(sweep_.source()), look,
                        [&](Checker&& checker) { found_.join(std::move(checker.found)); });
}

}  // namespace atompack::passes
