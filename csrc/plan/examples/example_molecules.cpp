#include "plan/examples/example_molecules.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace atompack::collate {
namespace {

const Request kAllFields;

std::vector<Observation> observe(const ValueMolecules& source) {
  std::vector<Observation> all;
  for (int64_t molecule = 0; molecule < source.size(); ++molecule) {
    for (const ValueMolecules::Entry& entry : source.entries(molecule)) {
      const bool has_rows = entry.type.level == Level::molecule || source.extent(molecule).n_atoms > 0;
      all.push_back({molecule, entry.field, entry.type, Shape(entry.row_shape), has_rows});
    }
  }
  return all;
}

DType common_positions_dtype(const ValueMolecules& source) {
  DType common = source.positions_dtype(0);
  for (int64_t i = 1; i < source.size(); ++i) common = *common_dtype(common, source.positions_dtype(i));
  return common;
}

}  // namespace

std::optional<MoleculesPlan> plan_molecules(std::span<const Value> dicts, std::span<const int64_t> numbers,
                                            const KeyLevels& levels, ArenaLayout& arena) {
  MoleculesPlan plan{.source = ValueMolecules::make(dicts, levels), .fields = {}, .batch = {}, .numbers = {}};
  if (plan.source == nullptr) return std::nullopt;
  const ValueMolecules& source = *plan.source;
  plan.fields = std::make_unique<FieldSet>(source.schemas(), kAllFields);
  plan.numbers.assign(numbers.begin(), numbers.end());
  BatchPlan& batch = plan.batch;
  batch.indices.resize(dicts.size());
  std::iota(batch.indices.begin(), batch.indices.end(), 0);
  count_rows(source, batch);
  batch.table = plan.fields->table();
  batch.positions = common_positions_dtype(source);
  // Fewer fields than keys: two keys name the same field, because one of them has an explicit scope prefix.
  if (plan.fields->size() != source.schemas().front().fields.size()) return std::nullopt;
  const std::vector<Observation> all = source.is_uniform() ? std::vector<Observation>{} : observe(source);
  std::vector<std::vector<const Observation*>> observed(plan.fields->size());
  for (const Observation& seen : all) observed[static_cast<size_t>(seen.field)].push_back(&seen);
  for (size_t field = 0; field < plan.fields->size(); ++field) {
    try {
      batch.fields.push_back(plan.fields->resolve(field, std::array{0}, observed[field], batch.n_molecules()));
    } catch (const FieldError&) {
      return std::nullopt;
    }
    const FieldDeclaration& declared = source.schemas().front().fields[field];
    const auto is_number = [](const Observation* seen) { return seen->row_shape.rank() == 0; };
    const bool has_numbers =
        declared.row_shape ? declared.row_shape->rank() == 0 : std::ranges::any_of(observed[field], is_number);
    if (declared.scope != Scope::molecule_property || !has_numbers) continue;
    DType& dtype = batch.fields.back().type.dtype;
    dtype = number_dtype(dtype);
  }
  lay_out(batch, arena);
  return plan;
}

}  // namespace atompack::collate
