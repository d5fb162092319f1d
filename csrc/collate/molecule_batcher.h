// Batcher of molecules.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collate/batcher.h"
#include "collate/fill.h"
#include "collate/survey.h"
#include "model/molecule_source.h"
#include "plan/batch_plan.h"
#include "plan/field_set.h"
#include "threads/adaptive_parallelism.h"

namespace atompack::collate {

// Makes batches of one source with the options of one request. Thread-safe.
class MoleculeBatcher final : public Batcher {
 public:
  // `kept`: edges of all molecules, which are not searched again if they serve the request; nullptr: none.
  MoleculeBatcher(std::shared_ptr<const MoleculeSource> source, std::shared_ptr<const plan::Request> request,
                  std::shared_ptr<const plan::PrecomputedEdges> kept = nullptr);

  // Returns the source of the molecules as stored, whatever the request makes of them.
  const std::shared_ptr<const MoleculeSource>& source() const { return stored_; }

  const std::shared_ptr<const plan::Request>& request() const { return request_; }

  // Fields of every batch, without those that only a survey finds.
  const std::shared_ptr<const plan::FieldTable>& table() const { return fields_.table(); }

  int64_t size() const override { return source_->size(); }
  std::string_view item() const override { return "molecule"; }

  int64_t window() const override { return source_->window(); }
  void announce(std::span<const int64_t> indices) const override { source_->announce(indices); }

  AnyBatch make_announced(std::vector<int64_t> indices, ArenaKind kind, Parallelism parallelism) const override {
    return collate(std::move(indices), kind, parallelism, false);
  }

  // Makes a batch of one molecule. Damaged properties are reported as faults, not thrown, and the molecule is never
  // dropped.
  Batch make_one(int64_t index) const { return collate({index}, ArenaKind::heap, Parallelism::automatic, true); }

 private:
  Batch collate(std::vector<int64_t> indices, ArenaKind kind, Parallelism parallelism, bool single) const;
  Batch make_planned(plan::BatchPlan& plan, ArenaKind kind, bool single) const;
  Batch make_by_schema(plan::BatchPlan& plan, std::span<const int32_t> touched, ArenaKind kind, bool single) const;
  Batch make_by_survey(plan::BatchPlan& plan, std::vector<int32_t> touched, ArenaKind kind, bool single) const;
  void plan_by_survey(plan::BatchPlan& plan, std::span<const int32_t> touched, const Survey& survey) const;

  std::vector<int32_t> touched_schemas(std::span<const int64_t> indices) const;
  void count_work(plan::BatchPlan& plan) const;
  bool searches_edges() const { return request_->neighbors && !takes_kept_edges_; }
  void place_outputs(plan::BatchPlan& plan) const;
  bool can_plan_by_schema(std::span<const int32_t> touched) const;
  Batch fill(const plan::BatchPlan& plan, const StagedRecords* staged, ArenaKind kind,
             const FillOptions& options) const;

  std::shared_ptr<const MoleculeSource> stored_, source_;  // as stored; as in batches
  std::shared_ptr<const plan::Request> request_;
  std::shared_ptr<const plan::PrecomputedEdges> kept_;
  plan::FieldSet fields_;
  bool takes_kept_edges_ = false;
  std::vector<std::vector<plan::FieldPlan>> schema_plans_;  // by schema; empty if its fields need a survey
  mutable threads::AdaptiveParallelism adaptive_;
};

}  // namespace atompack::collate
