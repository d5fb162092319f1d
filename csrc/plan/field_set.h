// Fields of a batch with their types and shapes, determined by schemas if possible, otherwise by a survey of records.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/batch_plan.h"
#include "plan/request.h"
#include "plan/type_rules.h"

namespace atompack::plan {

// Selected fields of all schemas of a source.
class FieldSet {
 public:
  static constexpr int32_t kSkip = -1;

  FieldSet(std::span<const MoleculeSchema> schemas, const Request& request);

  size_t size() const { return table_->fields().size(); }
  const std::shared_ptr<const FieldTable>& table() const { return table_; }
  const Request& request() const { return request_; }

  // Returns the index of the field that a declaration of a schema refers to, or kSkip if it is not selected.
  int32_t field_of(int32_t schema, int32_t declaration) const {
    return slots_[static_cast<size_t>(schema)][static_cast<size_t>(declaration)];
  }

  // Plans a field from the declarations of the touched schemas (of all schemas if these do not declare it) and the
  // observed values. Its width is the widest of all schemas, so it does not depend on the molecules of the batch.
  // Throws FieldError if types cannot share a tensor.
  FieldPlan resolve(size_t field, std::span<const int32_t> touched, std::span<const Observation* const> observed,
                    int64_t n_molecules) const;

  // True if the schema declares the shapes of all its fields, so that a batch can be planned without its records.
  bool is_determined_by(int32_t schema) const;

 private:
  struct Declared {
    int32_t schema;
    FieldType type;
    std::optional<Shape> row_shape;
  };
  std::vector<const Declared*> declarations(size_t field, std::span<const int32_t> touched) const;
  FieldType widest(size_t field, const FieldType& touched) const;

  const Request& request_;
  std::shared_ptr<const FieldTable> table_;
  std::vector<std::vector<Declared>> declared_;  // by field
  std::vector<std::vector<int32_t>> slots_;      // schema, declaration -> field
};

// Type and row shape of a field in every batch of a source, selected or not.
struct OutputField {
  FieldId id;
  FieldType type;                  // with the dtype of the output
  std::optional<Shape> row_shape;  // nullopt: differs from molecule to molecule
};

// Lists the fields of all schemas in the order in which they first occur. If types do not mix, the first one counts.
// Casts are not checked; making a batch checks them.
std::vector<OutputField> output_fields(std::span<const MoleculeSchema> schemas, const Request& request);

// Plans a field that no schema lists.
FieldPlan resolve_unlisted(const FieldEntry& entry, std::span<const Observation* const> observed, int64_t n_molecules,
                           const Request& request);

// Returns the dtype of positions in every batch of these schemas.
DType resolve_positions(std::span<const MoleculeSchema> schemas, const Request& request);

}  // namespace atompack::plan
