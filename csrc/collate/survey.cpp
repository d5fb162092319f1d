#include "collate/survey.h"

#include <algorithm>
#include <unordered_map>

#include "collate/torch_threads.h"

namespace atompack::collate {
namespace {

// Surveys the molecules of one thread. Fields that no schema lists are numbered from kUnlisted downwards until all
// results are joined.
class Surveyor final : public MoleculeVisitor {
 public:
  static constexpr int32_t kUnlisted = -2;

  Surveyor(const MoleculeSource& source, const plan::FieldSet& fields, const plan::Request& request,
           const plan::BatchPlan& plan, bool tolerant)
      : source_(source), fields_(fields), request_(request), plan_(plan), tolerant_(tolerant) {}

  void survey(int64_t molecule, Bytes record) {
    molecule_ = molecule;
    observed_.clear();
    const int64_t index = plan_.indices[static_cast<size_t>(molecule)];
    schema_ = source_.schema_of(index);
    source_.visit(index, record, *this);
  }

  void geometry(const Geometry&) override {}

  void field(const FieldView& view, Bytes) override {
    const int32_t number = find(view);
    if (number == plan::FieldSet::kSkip) return;
    if (view.fault != nullptr) return add_fault(number, *view.fault);
    const bool has_rows = plan_.n_rows(view.type.level, static_cast<size_t>(molecule_)) > 0;
    const plan::Observation seen{molecule_, number, view.type, view.row_shape, has_rows};
    const auto [earlier, is_first] = observed_.try_emplace(number, found.observations.size());
    if (is_first) {
      found.observations.push_back(seen);
    } else if (view.scope == Scope::builtin) {
      found.observations[earlier->second] = seen;  // the last value of a builtin field counts
    } else {
      CorruptFileError error("duplicate key");
      error.at_field(view.key);
      add_fault(number, error);
    }
  }

  Survey found;  // unlisted fields have the numbers of this thread

 private:
  int32_t find(const FieldView& view) {
    if (view.declaration >= 0) return fields_.field_of(schema_, view.declaration);
    if (const int32_t known = fields_.table()->find(view.scope, view.key); known >= 0) return known;
    plan::FieldId id{view.scope, std::string(view.key)};
    if (!request_.selects(id)) return plan::FieldSet::kSkip;
    return kUnlisted - found.unlisted.add({std::move(id), view.type.level, view.type.kind});
  }

  void add_fault(int32_t number, const CorruptFileError& fault) {
    if (!tolerant_) throw fault;
    found.faults.push_back({molecule_, number, fault});
    source_.locate(found.faults.back().error, plan_.indices[static_cast<size_t>(molecule_)]);
  }

  const MoleculeSource& source_;
  const plan::FieldSet& fields_;
  const plan::Request& request_;
  const plan::BatchPlan& plan_;
  bool tolerant_;
  int64_t molecule_ = 0;
  std::unordered_map<int32_t, size_t> observed_;  // field -> observation of this molecule
  int32_t schema_ = 0;
};

// Appends the results of a thread to those of the threads before it.
void join(Survey& all, Survey&& part, size_t n_listed) {
  std::vector<int32_t> numbers;
  for (const plan::FieldEntry& entry : part.unlisted.fields()) {
    numbers.push_back(static_cast<int32_t>(n_listed) + all.unlisted.add(entry));
  }
  const auto renumber = [&](int32_t& field) {
    if (field <= Surveyor::kUnlisted) field = numbers[static_cast<size_t>(Surveyor::kUnlisted - field)];
  };
  for (plan::Observation& seen : part.observations) {
    renumber(seen.field);
    all.observations.push_back(seen);
  }
  for (SurveyFault& fault : part.faults) {
    renumber(fault.field);
    all.faults.push_back(std::move(fault));
  }
}

}  // namespace

StagedRecords stage_records(const MoleculeSource& source, const plan::BatchPlan& plan,
                            std::span<const int64_t> borders) {
  const size_t n = plan.indices.size();
  std::vector<size_t> starts{0};
  for (size_t i = 0; i < n; ++i) {
    const bool needed = source.needs_scratch(plan.indices[i]);
    starts.push_back(starts.back() + (needed ? static_cast<size_t>(plan.extents[i].decoded_bytes) : 0));
  }
  StagedRecords staged{std::make_unique_for_overwrite<std::byte[]>(starts.back()), std::vector<Bytes>(n)};
  for_each_range(std::ssize(borders) - 1, [&](int64_t range) {
    for (auto i = static_cast<size_t>(borders[range]); i < static_cast<size_t>(borders[range + 1]); ++i) {
      staged.records[i] = source.decode(plan.indices[i], {staged.memory.get() + starts[i], starts[i + 1] - starts[i]});
    }
  });
  return staged;
}

Survey survey_records(const MoleculeSource& source, const plan::FieldSet& fields, const plan::Request& request,
                      const plan::BatchPlan& plan, const StagedRecords& staged, std::span<const int64_t> borders,
                      bool tolerant) {
  const auto n_ranges = std::ssize(borders) - 1;
  std::vector<Surveyor> surveyors(static_cast<size_t>(n_ranges), Surveyor(source, fields, request, plan, tolerant));
  for_each_range(n_ranges, [&](int64_t range) {
    Surveyor& surveyor = surveyors[static_cast<size_t>(range)];
    for (int64_t i = borders[range]; i < borders[range + 1]; ++i) {
      surveyor.survey(i, staged.records[static_cast<size_t>(i)]);
    }
  });
  Survey all;
  for (Surveyor& surveyor : surveyors) join(all, std::move(surveyor.found), fields.size());
  return all;
}

void drop_incomplete(const plan::FieldSet& fields, plan::BatchPlan& plan, StagedRecords& staged, Survey& survey) {
  const auto is_required = [&](size_t field) {
    const plan::FieldId& id = fields.table()->fields()[field].id;
    return !is_geometry(id.scope, id.key);
  };
  size_t n_required = 0;
  for (size_t field = 0; field < fields.size(); ++field) n_required += is_required(field) ? 1 : 0;
  std::vector<size_t> present(plan.indices.size(), 0);
  const auto count = [&](const auto& seen) {
    const auto field = static_cast<size_t>(seen.field);
    if (field < fields.size() && is_required(field)) ++present[static_cast<size_t>(seen.molecule)];
  };
  std::ranges::for_each(survey.observations, count);

  std::vector<int64_t> new_index(plan.indices.size(), -1);
  plan::BatchPlan kept;
  kept.ptr = kept.edge_ptr = kept.triplet_ptr = {0};
  kept.max_ranges = plan.max_ranges;
  kept.has_structure = plan.has_structure;
  std::vector<Bytes> records;
  for (size_t i = 0; i < plan.indices.size(); ++i) {
    if (present[i] < n_required) continue;
    new_index[i] = std::ssize(kept.indices);
    kept.indices.push_back(plan.indices[i]);
    plan::append_rows(kept, plan.extents[i]);
    records.push_back(staged.records[i]);
  }
  std::erase_if(survey.observations,
                [&](const auto& seen) { return new_index[static_cast<size_t>(seen.molecule)] < 0; });
  for (plan::Observation& seen : survey.observations) seen.molecule = new_index[static_cast<size_t>(seen.molecule)];
  plan = std::move(kept);
  staged.records = std::move(records);
}

}  // namespace atompack::collate
