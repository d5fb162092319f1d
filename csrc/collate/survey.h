// Looking at the records of a batch before it is planned: for fields whose presence or shape no schema settles.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collate/batch.h"
#include "model/molecule_source.h"
#include "plan/molecules/batch_plan.h"
#include "plan/molecules/field_set.h"

namespace atompack::collate {

// The decoded records of a batch: decompressed once, read by survey and fill.
struct StagedRecords {
  std::unique_ptr<std::byte[]> memory;
  std::vector<Bytes> records;  // views of the memory or of the mapping
};

// `borders` cuts the batch into ranges, one for each thread.
StagedRecords stage_records(const MoleculeSource& source, const BatchPlan& plan, std::span<const int64_t> borders);

struct SurveyFault {
  int64_t molecule;
  int32_t field;
  CorruptFileError error;
};

struct Survey {
  FieldTable unlisted;                    // fields that no schema lists, numbered behind those of the set
  std::vector<Observation> observations;  // sorted by molecule; none of a damaged value
  std::vector<SurveyFault> faults;        // only where they are tolerated; else they are thrown
};

Survey survey_records(const MoleculeSource& source, const FieldSet& fields, const Request& request,
                      const BatchPlan& plan, const StagedRecords& staged, std::span<const int64_t> borders,
                      bool tolerant);

// Takes the molecules that lack one of the set's fields out of the plan, the records and the survey.
void drop_incomplete(const FieldSet& fields, BatchPlan& plan, StagedRecords& staged, Survey& survey);

}  // namespace atompack::collate
