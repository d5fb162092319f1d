#include "passes/statistics.h"

#include "plan/structure.h"

namespace atompack::passes {

void NormalEquations::add(std::span<const ElementCount> composition, double energy, double weight) {
  for (const ElementCount& element : composition) {
    std::vector<double>& row = rows_[element.number];
    if (row.empty()) row.resize(kElements);
    const double weighted = weight * static_cast<double>(element.atoms);
    for (const ElementCount& other : composition) row[other.number] += weighted * static_cast<double>(other.atoms);
    right_[element.number] += weighted * energy;
  }
  squares_ += weight * energy * energy;
}

void NormalEquations::join(const NormalEquations& other) {
  for (size_t i = 0; i < kElements; ++i) {
    if (other.rows_[i].empty()) continue;
    if (rows_[i].empty()) rows_[i].resize(kElements);
    for (size_t j = 0; j < kElements; ++j) rows_[i][j] += other.rows_[i][j];
    right_[i] += other.right_[i];
  }
  squares_ += other.squares_;
}

std::vector<double> NormalEquations::gram() const {
  std::vector<double> all(kElements * kElements);
  for (size_t i = 0; i < kElements; ++i) {
    std::ranges::copy(rows_[i], all.begin() + static_cast<std::ptrdiff_t>(i * kElements));
  }
  return all;
}

namespace {

using physics::NeighborSearch;
using physics::PairList;

// An atom is isolated if none of its periodic images is nearer than this distance or the cutoff, whichever is larger.
// It exceeds the range of most potentials: an atom in a large box is isolated, a primitive cell of one atom is not.
constexpr double kIsolation = 6.0;

template <typename T>
void add_vectors_one_by_one(Statistics& sums, const std::byte* from, size_t n_vectors, int64_t molecule) {
  for (size_t i = 0; i < n_vectors; ++i) {
    std::array<double, 3> vector;
    for (size_t k = 0; k < 3; ++k) {
      vector[k] = load_le<T>(from + (3 * i + k) * sizeof(T));
      sums.forces.add(vector[k]);
    }
    const double length = std::hypot(vector[0], vector[1], vector[2]);
    if (std::isfinite(length)) sums.keep_larger(length, molecule);
  }
}

// The first value stands in for the mean, which would take a second pass; separate sums for the components avoid
// dependencies between additions.
template <typename T>
void add_vectors(Statistics& sums, const std::byte* from, size_t n_vectors, int64_t molecule) {
  if (n_vectors == 0) return;
  const double guess = load_le<T>(from);
  std::array<double, 3> first{}, second{}, low{guess, guess, guess}, high{guess, guess, guess};
  double longest = 0;
  for (size_t i = 0; i < n_vectors; ++i) {
    double norm = 0;
    for (size_t k = 0; k < 3; ++k) {
      const double value = load_le<T>(from + (3 * i + k) * sizeof(T));
      const double distance = value - guess;
      first[k] += distance;
      second[k] += distance * distance;
      norm += value * value;
      low[k] = std::min(low[k], value);
      high[k] = std::max(high[k], value);
    }
    longest = std::max(longest, norm);
  }
  const double sum = first[0] + first[1] + first[2];
  const double sum_of_squares = second[0] + second[1] + second[2];
  if (!std::isfinite(sum_of_squares) || !std::isfinite(longest)) {
    return add_vectors_one_by_one<T>(sums, from, n_vectors, molecule);
  }
  Moments all;
  all.count = static_cast<int64_t>(3 * n_vectors);
  const auto count = static_cast<double>(all.count);
  all.mean = guess + sum / count;
  all.scatter = std::max(0.0, sum_of_squares - sum * sum / count);
  all.low = std::ranges::min(low);
  all.high = std::ranges::max(high);
  sums.forces.join(all);
  sums.keep_larger(std::sqrt(longest), molecule);
}

template <typename T>
void add_squares_by_element(Statistics& sums, const std::byte* from, Bytes numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto element = static_cast<size_t>(numbers[i]);
    for (size_t k = 0; k < 3; ++k) {
      const double value = load_le<T>(from + (3 * i + k) * sizeof(T));
      if (!std::isfinite(value)) continue;
      sums.force_squares[element] += value * value;
      ++sums.force_components[element];
    }
  }
}

double scalar(DType dtype, Bytes data) {
  return dtype == DType::float32 ? load_le<float>(data.data()) : load_le<double>(data.data());
}

void check_width(size_t width, size_t expected) {
  if (width == expected) return;
  throw FieldError(cat("features: expected ", expected, " columns as in other molecules, got ", width))
      .at_field("features");
}

// Adds one molecule after the other. A builtin field may be stored twice, in which case the last one counts, so values
// are added at the end of the record.
class Adder final : public MoleculeVisitor {
 public:
  Adder(const MoleculeSource& source, const plan::Request& request, const plan::FieldSet& fields,
        const StatisticsPass::References& references, std::optional<double> cutoff, bool with_features)
      : source_(source),
        request_(request),
        fields_(fields),
        references_(references),
        counts_pairs_(cutoff.has_value()),
        with_features_(with_features),
        search_({.cutoff = cutoff.value_or(kIsolation)}),
        isolation_({.cutoff = std::max(kIsolation, cutoff.value_or(0))}) {}

  void add(int64_t index, std::vector<std::byte>& scratch) {
    index_ = index;
    ++serial_;
    schema_ = source_.schema_of(index);
    present_.clear();
    energy_.reset();
    forces_.reset();
    features_.reset();
    structure_.clear();
    visit_molecule(source_, index, scratch, *this);
    if (request_.missing != plan::Missing::nan && !is_complete()) return;
    add_composition();
    if (counts_pairs_) add_pairs();
    if (energy_) add_energy();
    if (forces_) add_forces();
    if (features_) add_features();
    for (const int32_t field : present_) ++at_field(sums.present, field);
  }

  void geometry(const Geometry& geometry) override { geometry_ = geometry; }

  void field(const FieldView& view, Bytes data) override {
    structure_.read_field(view, data);
    if (with_features_ && view.scope == Scope::builtin && view.key == "features" && view.fault == nullptr) {
      features_ = {view.type.dtype, data};
      n_features_ = static_cast<size_t>(view.row_shape.numel());
    }
    const int32_t number = find(view);
    if (number == plan::FieldSet::kSkip) return;
    if (view.fault != nullptr) throw *view.fault;
    const bool is_first = at_field(last_seen_, number) != serial_;
    at_field(last_seen_, number) = serial_;
    if (is_first) {
      present_.push_back(number);
    } else if (view.scope != Scope::builtin) {
      throw CorruptFileError("duplicate key").at_field(view.key);
    }
    if (view.scope != Scope::builtin) return;
    if (view.key == "energy") energy_ = scalar(view.type.dtype, data);
    if (view.key == "forces") forces_ = {view.type.dtype, data};
  }

  Statistics sums;

 private:
  struct Vectors {
    DType dtype;
    Bytes data;
  };

  static int64_t& at_field(std::vector<int64_t>& all, int32_t field) {
    const auto place = static_cast<size_t>(field);
    if (place >= all.size()) all.resize(place + 1);
    return all[place];
  }

  int32_t find(const FieldView& view) {
    if (view.declaration >= 0) return fields_.field_of(schema_, view.declaration);
    if (const int32_t known = fields_.table()->find(view.scope, view.key); known >= 0) return known;
    plan::FieldId id{view.scope, std::string(view.key)};
    if (!request_.selects(id)) return plan::FieldSet::kSkip;
    return static_cast<int32_t>(fields_.size()) + sums.unlisted.add({std::move(id), view.type.level, view.type.kind});
  }

  // True if all requested fields are present; throws if a missing one is an error.
  bool is_complete() {
    const auto n_listed = static_cast<int32_t>(fields_.size());
    for (int32_t field = 0; field < n_listed; ++field) {
      const plan::FieldId& id = fields_.table()->fields()[static_cast<size_t>(field)].id;
      if (at_field(last_seen_, field) == serial_ || is_geometry(id.scope, id.key)) continue;
      if (request_.missing == plan::Missing::drop) return false;
      source_.located(index_, [&] { throw request_.absent(id); });
    }
    return true;
  }

  void add_composition() {
    composition_.clear();
    for (const std::byte number : geometry_.numbers) ++atoms_[static_cast<size_t>(number)];
    for (const std::byte number : geometry_.numbers) {
      int64_t& atoms = atoms_[static_cast<size_t>(number)];
      if (atoms == 0) continue;
      composition_.push_back({static_cast<uint8_t>(number), atoms});
      atoms = 0;
    }
    for (const ElementCount& element : composition_) {
      sums.atoms_of[element.number] += element.atoms;
      ++sums.molecules_of[element.number];
    }
    ++sums.n_molecules;
    sums.n_atoms += geometry_.n_atoms;
    ++sums.sizes[geometry_.n_atoms];
  }

  // Finds the pairs of the molecule visited last, in `pairs_`.
  void find_pairs(NeighborSearch& search) {
    structure_.set_positions(geometry_);
    pairs_.clear();
    structure_.find_pairs(search, pairs_);
  }

  void add_pairs() {
    source_.located(index_, [&] { find_pairs(search_); });
    sums.n_pairs += static_cast<int64_t>(pairs_.size());
  }

  bool is_isolated() {
    if (structure_.is_open()) return true;
    try {
      find_pairs(isolation_);
    } catch (const DataError&) {
      return false;  // degenerate cell: the distance to images is unknown
    }
    return pairs_.size() == 0;
  }

  void add_energy() {
    const auto n_atoms = static_cast<double>(geometry_.n_atoms);
    sums.energy.add(*energy_);
    if (geometry_.n_atoms == 0) return;
    if (geometry_.n_atoms == 1 && is_isolated()) sums.isolated_atoms[composition_.front().number].add(*energy_);
    sums.energy_per_atom.add(*energy_ / n_atoms);
    if (!std::isfinite(*energy_)) return;
    double rest = *energy_;
    for (const ElementCount& element : composition_) {
      rest -= static_cast<double>(element.atoms) * references_[element.number];
    }
    sums.equations.add(composition_, rest, 1);
    sums.equations_per_atom.add(composition_, rest, 1 / (n_atoms * n_atoms));
  }

  void add_forces() {
    const auto [dtype, data] = *forces_;
    const size_t n_vectors = data.size() / (3 * item_bytes(dtype));
    if (dtype == DType::float32) {
      add_vectors<float>(sums, data.data(), n_vectors, index_);
      add_squares_by_element<float>(sums, data.data(), geometry_.numbers);
    } else {
      add_vectors<double>(sums, data.data(), n_vectors, index_);
      add_squares_by_element<double>(sums, data.data(), geometry_.numbers);
    }
  }

  void add_features() {
    if (sums.features.empty()) sums.features.resize(n_features_);
    check_width(n_features_, sums.features.size());
    const auto [dtype, data] = *features_;
    for (size_t first = 0; first + n_features_ * item_bytes(dtype) <= data.size() && n_features_ > 0;
         first += n_features_ * item_bytes(dtype)) {
      for (size_t column = 0; column < n_features_; ++column) {
        sums.features[column].add(scalar(dtype, data.subspan(first + column * item_bytes(dtype))));
      }
    }
  }

  const MoleculeSource& source_;
  const plan::Request& request_;
  const plan::FieldSet& fields_;
  const StatisticsPass::References& references_;
  bool counts_pairs_, with_features_;
  NeighborSearch search_, isolation_;

  int64_t index_ = 0;
  int32_t schema_ = 0;
  Geometry geometry_{};
  std::optional<double> energy_;
  std::optional<Vectors> forces_, features_;
  size_t n_features_ = 0;
  plan::Structure structure_;
  PairList pairs_;
  std::vector<int32_t> present_;
  std::vector<int64_t> last_seen_;  // per field: the last molecule that had it
  int64_t serial_ = 0;
  std::array<int64_t, kElements> atoms_{};  // all 0 between molecules
  std::vector<ElementCount> composition_;
};

}  // namespace

void Statistics::keep_larger(double length, int64_t molecule) {
  if (largest_force_at >= 0 && length <= largest_force) return;
  largest_force = length;
  largest_force_at = molecule;
}

void Statistics::join(const Statistics& other, size_t n_listed) {
  n_molecules += other.n_molecules;
  n_atoms += other.n_atoms;
  for (const auto& [atoms, molecules] : other.sizes) sizes[atoms] += molecules;
  for (size_t i = 0; i < kElements; ++i) {
    atoms_of[i] += other.atoms_of[i];
    molecules_of[i] += other.molecules_of[i];
    force_squares[i] += other.force_squares[i];
    force_components[i] += other.force_components[i];
    isolated_atoms[i].join(other.isolated_atoms[i]);
  }
  energy.join(other.energy);
  energy_per_atom.join(other.energy_per_atom);
  forces.join(other.forces);
  if (features.empty()) features.resize(other.features.size());
  if (!other.features.empty()) check_width(other.features.size(), features.size());
  for (size_t column = 0; column < other.features.size(); ++column) features[column].join(other.features[column]);
  if (other.largest_force_at >= 0) keep_larger(other.largest_force, other.largest_force_at);
  n_pairs += other.n_pairs;
  equations.join(other.equations);
  equations_per_atom.join(other.equations_per_atom);
  for (size_t field = 0; field < other.present.size(); ++field) {
    const size_t here = field < n_listed
                            ? field
                            : n_listed + static_cast<size_t>(unlisted.add(other.unlisted.fields()[field - n_listed]));
    if (here >= present.size()) present.resize(here + 1);
    present[here] += other.present[field];
  }
}

int64_t StatisticsPass::advance() {
  const auto look = [](Adder& adder, int64_t index, std::vector<std::byte>& scratch) { adder.add(index, scratch); };
  const auto join = [&](const Adder& adder) { found_.join(adder.sums, fields_.size()); };
  return sweep_.advance(Adder(sweep_.source(), *request_, fields_, references_, cutoff_, with_features_), look, join);
}

}  // namespace atompack::passes
