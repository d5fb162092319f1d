// Survey of the records of a batch before it is planned, for fields whose presence or shape no schema determines.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collate/batch.h"
#include "model/molecule_source.h"
#include "plan/batch_plan.h"
#include "plan/field_set.h"

namespace atompack::collate {

// Decoded records of a batch: decompressed once, read by both survey and fill.
struct StagedRecords {
  std::unique_ptr<std::byte[]> memory;
  std::vector<Bytes> records;  // views of the memory or of the mapping
};

// Decodes all records. `borders` divides the batch into ranges, one per thread.
StagedRecords stage_records(const MoleculeSource& source, const plan::BatchPlan& plan,
                            std::span<const int64_t> borders);

struct SurveyFault {
  int64_t molecule;
  int32_t field;
  CorruptFileError error;
};

struct Survey {
  plan::FieldTable unlisted;                    // fields that no schema lists, numbered after those of the set
  std::vector<plan::Observation> observations;  // sorted by molecule; damaged values are omitted
  std::vector<SurveyFault> faults;              // only if tolerated; otherwise they are thrown
};

// Surveys all records. With `tolerant`, damaged values are collected, not thrown.
Survey survey_records(const MoleculeSource& source, const plan::FieldSet& fields, const plan::Request& request,
                      const plan::BatchPlan& plan, const StagedRecords& staged, std::span<const int64_t> borders,
                      bool tolerant);

// Removes molecules that lack one of the set's fields from the plan, the records and the survey.
void drop_incomplete(const plan::FieldSet& fields, plan::BatchPlan& plan, StagedRecords& staged, Survey& survey);

}  // namespace atompack::collate
