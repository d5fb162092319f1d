#include "collate/molecule_batcher.h"

#include <algorithm>
#include <array>

#include "collate/edges.h"
#include "collate/outputs.h"
#include "collate/torch_threads.h"

namespace atompack::collate {

// Work in bytes per thread below which waking another thread costs more than it saves.
constexpr int64_t kMinWork = 192 * 1024;

// Work of the neighbor search per atom, as the number of bytes that could be copied in that time.
constexpr int64_t kSearchWork = 8 * 1024;

MoleculeBatcher::MoleculeBatcher(std::shared_ptr<const MoleculeSource> source,
                                 std::shared_ptr<const plan::Request> request,
                                 std::shared_ptr<const plan::PrecomputedEdges> kept)
    : stored_(std::move(source)),
      source_(request->augment ? std::make_shared<const AugmentedSource>(stored_, *request->augment) : stored_),
      request_(std::move(request)),
      kept_(std::move(kept)),
      fields_(source_->schemas(), *request_) {
  takes_kept_edges_ = kept_ && request_->neighbors && !request_->augment &&
                      kept_->serve(*request_->neighbors, plan::resolve_positions(source_->schemas(), *request_));
  if (takes_kept_edges_ && std::ssize(kept_->edge_ptr) != source_->size() + 1) {
    throw InternalError(cat("edges of ", kept_->edge_ptr.size(), " - 1 molecules: expected ", source_->size()));
  }
  const auto n_schemas = static_cast<int32_t>(source_->schemas().size());
  schema_plans_.resize(static_cast<size_t>(n_schemas));
  for (int32_t schema = 0; schema < n_schemas; ++schema) {
    if (!fields_.is_determined_by(schema)) continue;
    for (size_t field = 0; field < fields_.size(); ++field) {
      schema_plans_[static_cast<size_t>(schema)].push_back(fields_.resolve(field, std::array{schema}, {}, 0));
    }
  }
}

std::vector<int32_t> MoleculeBatcher::touched_schemas(std::span<const int64_t> indices) const {
  std::vector<int32_t> touched;
  if (source_->schemas().size() == 1) {
    if (!indices.empty()) touched.push_back(0);
    return touched;
  }
  for (const int64_t index : indices) {
    const int32_t schema = source_->schema_of(index);
    if (std::ranges::find(touched, schema) == touched.end()) touched.push_back(schema);
  }
  return touched;
}

bool MoleculeBatcher::can_plan_by_schema(std::span<const int32_t> touched) const {
  return touched.size() == 1 && fields_.is_determined_by(touched.front());
}

void MoleculeBatcher::place_outputs(plan::BatchPlan& plan) const {
  const auto add_place = [&](DataError& error) {
    if (!plan.indices.empty()) source_->locate(error, plan.indices.front());
  };
  with_context(add_place, [&] {
    plan::fit_edges(plan, request_->outputs);
    plan::lay_out(plan);
    plan::lay_out_outputs(plan, request_->outputs);
  });
}

void MoleculeBatcher::count_work(plan::BatchPlan& plan) const {
  plan::count_rows(*source_, plan);
  if (takes_kept_edges_) add_edge_work(*kept_, plan);
  if (!searches_edges()) return;
  for (MoleculeExtent& extent : plan.extents) extent.work += kSearchWork * extent.n_atoms;
}

// Uses several threads only if there is enough work for them and they recently saved time.
Batch MoleculeBatcher::collate(std::vector<int64_t> indices, ArenaKind kind, Parallelism parallelism,
                               bool single) const {
  source_->prepare(indices);
  plan::BatchPlan plan;
  plan.indices = std::move(indices);
  plan.has_structure = request_->structure;
  count_work(plan);
  if (parallelism == Parallelism::serial) return make_planned(plan, kind, single);
  const int64_t work = plan::total_work(plan);
  const int64_t max_threads = std::min(work / kMinWork, usable_threads(request_->max_threads));
  return threads::run_adaptively(adaptive_, work, max_threads, [&](int64_t n_threads) {
    plan.max_ranges = n_threads;
    return make_planned(plan, kind, single);
  });
}

Batch MoleculeBatcher::make_planned(plan::BatchPlan& plan, ArenaKind kind, bool single) const {
  std::vector<int32_t> touched = touched_schemas(plan.indices);
  if (can_plan_by_schema(touched) && (single || request_->missing != plan::Missing::drop)) {
    try {
      return make_by_schema(plan, touched, kind, single);
    } catch (const PlanMismatch&) {
      // A record differs from its schema, or holds a damaged value that must be reported: survey all records.
    }
  }
  return make_by_survey(plan, std::move(touched), kind, single);
}

Batch MoleculeBatcher::make_by_schema(plan::BatchPlan& plan, std::span<const int32_t> touched, ArenaKind kind,
                                      bool single) const {
  plan.table = fields_.table();
  plan.fields = schema_plans_[static_cast<size_t>(touched.front())];
  for (plan::FieldPlan& field : plan.fields) {
    if (field.ragged) field.rows.resize(plan.indices.size());
  }
  plan.positions = plan::resolve_positions(source_->schemas(), *request_);
  std::optional<StagedRecords> staged;
  if (takes_kept_edges_) plan.edges = take_edges(*kept_, *request_->neighbors, plan);
  if (searches_edges()) {
    staged = stage_records(*source_, plan, plan::split_by_work(plan));
    plan.edges = find_edges(*source_, *request_->neighbors, plan, *staged);
  }
  place_outputs(plan);
  return fill(plan, staged ? &*staged : nullptr, kind,
              {.tolerant = single, .schema = touched.front(), .all_fields = !request_->fields});
}

Batch MoleculeBatcher::make_by_survey(plan::BatchPlan& plan, std::vector<int32_t> touched, ArenaKind kind,
                                      bool single) const {
  const std::vector<int64_t> borders = plan::split_by_work(plan);
  StagedRecords staged = stage_records(*source_, plan, borders);
  Survey survey = survey_records(*source_, fields_, *request_, plan, staged, borders, single);
  if (request_->missing == plan::Missing::drop && !single) {
    drop_incomplete(fields_, plan, staged, survey);
    touched = touched_schemas(plan.indices);
  }
  plan_by_survey(plan, touched, survey);
  // Already found if a plan by the schema failed; taken again, as molecules may have been dropped.
  if (takes_kept_edges_) plan.edges = take_edges(*kept_, *request_->neighbors, plan);
  if (searches_edges() && !plan.edges) plan.edges = find_edges(*source_, *request_->neighbors, plan, staged);
  place_outputs(plan);
  try {
    Batch batch = fill(plan, &staged, kind, {.surveyed = true, .tolerant = single});
    for (SurveyFault& fault : survey.faults) batch.faults.push_back({fault.field, fault.error.what()});
    return batch;
  } catch (const PlanMismatch&) {
    throw CorruptFileError("the file was overwritten while it was read: a record changed");
  }
}

void MoleculeBatcher::plan_by_survey(plan::BatchPlan& plan, std::span<const int32_t> touched,
                                     const Survey& survey) const {
  auto table = std::make_shared<plan::FieldTable>(*fields_.table());
  for (const plan::FieldEntry& entry : survey.unlisted.fields()) table->add(entry);
  std::vector<std::vector<const plan::Observation*>> observed(table->fields().size());
  for (const plan::Observation& seen : survey.observations) observed[static_cast<size_t>(seen.field)].push_back(&seen);
  plan.fields.clear();
  for (size_t field = 0; field < table->fields().size(); ++field) {
    plan.fields.push_back(field < fields_.size() ? fields_.resolve(field, touched, observed[field], plan.n_molecules())
                                                 : plan::resolve_unlisted(table->fields()[field], observed[field],
                                                                          plan.n_molecules(), *request_));
  }
  plan.table = survey.unlisted.fields().empty() ? fields_.table() : std::move(table);
  plan.positions = plan::resolve_positions(source_->schemas(), *request_);
}

Batch MoleculeBatcher::fill(const plan::BatchPlan& plan, const StagedRecords* staged, ArenaKind kind,
                            const FillOptions& options) const {
  Batch batch = fill_batch(*source_, fields_, plan, options, staged, allocate_arena(plan.arena_bytes, kind));
  if (!request_->outputs.empty()) add_outputs(*source_, request_->outputs, plan, batch);
  return batch;
}

}  // namespace atompack::collate
