// Filler of the arena of a batch of molecules.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "collate/batch.h"
#include "model/molecule_source.h"
#include "plan/batch_plan.h"
#include "plan/example_plan.h"
#include "plan/field_set.h"

namespace atompack::collate {

// Thrown if a record does not match the plan; the caller then plans by a survey.
struct PlanMismatch {};

struct FillOptions {
  bool surveyed = false;  // the plan comes from a survey of these records; otherwise a difference is a PlanMismatch
  bool tolerant = false;  // damaged values are skipped (a survey reports them) instead of thrown
  std::optional<int32_t> schema = std::nullopt;  // the only schema of the batch, if the plan comes from it
  bool all_fields = false;  // a field unknown to the plan is a PlanMismatch; otherwise it is not selected
};

// Writes molecules to an arena. Fillers on several threads may share a plan: they write disjoint parts.
class Filler final : public MoleculeVisitor {
 public:
  Filler(const MoleculeSource& source, const plan::FieldSet& fields, const plan::BatchPlan& plan,
         const FillOptions& options, std::byte* arena, std::vector<Strings>& strings);

  // Writes all values of molecule `row` of the batch.
  void fill(int64_t row, Bytes record);

  void geometry(const Geometry& geometry) override;
  void field(const FieldView& view, Bytes data) override;

 private:
  // Destination of the values of one declaration, whose type and shape the schema determines; made once per batch.
  struct Target {
    std::byte* first = nullptr;  // null: this field needs field()'s general path
    bool* mask = nullptr;
    size_t row_bytes = 0;
    FieldType type;
    DType stored = DType::float64;
    bool selected = false;
    bool needs_no_cast = false;  // the stored bytes are those of the batch
  };
  Target target_of(int32_t declaration) const;
  bool write_to_target(const FieldView& view, Bytes data);
  void copy(std::byte* to, const FieldType& out, const FieldView& view, Bytes data) const;

  template <typename T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(arena_ + offset);
  }
  int32_t find(const FieldView& view) const;
  void write(const FieldView& view, Bytes data, const plan::FieldPlan& field, int32_t number);
  void write_missing(const plan::FieldPlan& field, int32_t number);
  bool& mask(int32_t number) const { return at<bool>(plan_.core.masks)[number * plan_.n_molecules() + row_]; }
  size_t first_element(const plan::FieldPlan& field) const;
  size_t n_elements(const plan::FieldPlan& field) const;

  const MoleculeSource& source_;
  const plan::FieldSet& fields_;
  const plan::BatchPlan& plan_;
  FillOptions options_;
  std::byte* arena_;
  std::vector<Strings>& strings_;

  int64_t row_ = 0;
  int32_t schema_ = 0;
  std::vector<Target> targets_;  // by declaration; empty unless the plan comes from a single schema
};

struct StagedRecords;

// Fills a whole batch and makes its tensors, with one thread per range of the plan. Decodes records unless `staged`.
Batch fill_batch(const MoleculeSource& source, const plan::FieldSet& fields, const plan::BatchPlan& plan,
                 const FillOptions& options, const StagedRecords* staged, const at::Tensor& arena);

// Functions that fill the arena of a batch of examples.

// Copies the values of all leaves, on `n_threads` threads.
void fill_examples(const plan::ExamplePlan& plan, const at::Tensor& arena, int64_t n_threads);

// Fills a batch of molecules, whose `index` contains the indices of the examples.
Batch fill_molecules(plan::MoleculesPlan& plan, const at::Tensor& arena, int64_t n_threads);

// Returns a view of the arena for each leaf.
std::vector<at::Tensor> wrap_examples(const plan::ExamplePlan& plan, const at::Tensor& arena);

// Conversion of a filled arena to a batch of tensors.

// Makes the tensors of a batch as views of its arena.
Batch wrap(const plan::BatchPlan& plan, const at::Tensor& arena, std::vector<Strings> strings);

}  // namespace atompack::collate
