// Fills the arena of a batch, molecule by molecule.
#pragma once

#include <vector>

#include "collate/batch.h"
#include "model/molecule_source.h"
#include "plan/molecules/batch_plan.h"
#include "plan/molecules/field_set.h"

namespace atompack::collate {

// A record holds what the plan did not foresee: the caller plans again, by a survey.
struct PlanMismatch {};

struct FillOptions {
  bool surveyed = false;  // the plan comes from these very records; else any surprise is a PlanMismatch
  bool tolerant = false;  // damaged values are passed over (a survey has reported them) instead of thrown
  std::optional<int32_t> settled_by = std::nullopt;  // the one schema that the plan comes from
  bool all_fields = false;  // a section that the plan does not know is a surprise, not something nobody asked for
};

// Writes disjoint parts of one arena, so several threads may each use their own Filler of the same plan.
class Filler final : public MoleculeVisitor {
 public:
  Filler(const MoleculeSource& source, const FieldSet& fields, const BatchPlan& plan, const FillOptions& options,
         std::byte* arena, std::vector<Strings>& strings);

  // Everything of molecule `row` of the batch.
  void fill(int64_t row, Bytes record);

  void geometry(const Geometry& geometry) override;
  void field(const FieldView& view, Bytes data) override;

 private:
  // Where values of one declaration go, of which the schema has settled type and shape: looked up once a batch.
  struct Target {
    std::byte* first = nullptr;  // null: this field takes the general way
    bool* mask = nullptr;
    size_t row_bytes = 0;
    FieldType type;
    DType stored = DType::float64;
    bool wanted = false;
    bool as_stored = false;  // bytes are copied as they are
  };
  Target target_of(int32_t declaration) const;
  bool write_settled(const FieldView& view, Bytes data);
  void copy(std::byte* to, const FieldType& out, const FieldView& view, Bytes data) const;

  template <typename T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(arena_ + offset);
  }
  int32_t find(const FieldView& view) const;
  void write(const FieldView& view, Bytes data, const FieldPlan& field, int32_t number);
  void write_missing(const FieldPlan& field, int32_t number);
  bool& mask(int32_t number) const { return at<bool>(plan_.core.masks)[number * plan_.n_molecules() + row_]; }
  size_t first_element(const FieldPlan& field) const;
  size_t n_elements(const FieldPlan& field) const;

  const MoleculeSource& source_;
  const FieldSet& fields_;
  const BatchPlan& plan_;
  FillOptions options_;
  std::byte* arena_;
  std::vector<Strings>& strings_;

  int64_t row_ = 0;
  int32_t schema_ = 0;
  std::vector<Target> targets_;  // by declaration; empty where the plan does not come from one schema alone
};

struct StagedRecords;

// Fills and wraps a whole batch, on as many threads as the plan has ranges. Decodes each record unless it was staged.
Batch fill_batch(const MoleculeSource& source, const FieldSet& fields, const BatchPlan& plan,
                 const FillOptions& options, const StagedRecords* staged, const at::Tensor& arena);

}  // namespace atompack::collate
