// Indices in, one batch out.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collate/arena/arena.h"
#include "collate/batch.h"
#include "collate/fill/fill.h"
#include "collate/survey.h"
#include "model/molecule_source.h"
#include "plan/molecules/field_set.h"
#include "threads/adaptive_parallelism.h"

namespace atompack::collate {

// Makes batches of one source as one request wants them. Thread-safe.
class Collator {
 public:
  Collator(std::shared_ptr<const MoleculeSource> source, std::shared_ptr<const Request> request);

  const std::shared_ptr<const MoleculeSource>& source() const { return source_; }

  const std::shared_ptr<const Request>& request() const { return request_; }

  // The fields of every batch, but for those that only a survey finds.
  const std::shared_ptr<const FieldTable>& table() const { return fields_.heads(); }

  // `indices` in any order, repeats allowed, all in range. Throws CorruptFileError, FieldError, IoError.
  Batch collate(std::vector<int64_t> indices, ArenaKind kind) const { return make(std::move(indices), kind, false); }

  // The same on the calling thread alone: for threads that make a batch each.
  Batch collate_serially(std::vector<int64_t> indices, ArenaKind kind) const;

  // A batch of one molecule in which damaged properties are reported as faults instead of thrown, and of which
  // nothing is dropped.
  Batch collate_one(int64_t index) const { return make({index}, ArenaKind::heap, true); }

 private:
  Batch make(std::vector<int64_t> indices, ArenaKind kind, bool single) const;
  Batch make_planned(BatchPlan& plan, ArenaKind kind, bool single) const;
  Batch make_by_schema(BatchPlan& plan, std::span<const int32_t> touched, ArenaKind kind, bool single) const;
  Batch make_by_survey(BatchPlan& plan, std::vector<int32_t> touched, ArenaKind kind, bool single) const;
  void plan_by_survey(BatchPlan& plan, std::span<const int32_t> touched, const Survey& survey) const;

  std::vector<int32_t> touched_schemas(std::span<const int64_t> indices) const;
  void count_work(BatchPlan& plan) const;
  void place_outputs(BatchPlan& plan) const;
  bool is_settled(std::span<const int32_t> touched) const;
  Batch fill(const BatchPlan& plan, const StagedRecords* staged, ArenaKind kind, const FillOptions& options) const;

  std::shared_ptr<const MoleculeSource> source_;
  std::shared_ptr<const Request> request_;
  FieldSet fields_;
  std::vector<std::vector<FieldPlan>> settled_;  // by schema: its plans, where it settles them without a survey
  mutable AdaptiveParallelism pace_;
};

}  // namespace atompack::collate
