// Which fields a batch has, and of which type and shape: settled by schemas where they can, else by a survey.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/molecules/batch_plan.h"
#include "plan/molecules/request.h"
#include "plan/type_rules.h"

namespace atompack::collate {

// The selected fields of all schemas of a source, numbered once.
class FieldSet {
 public:
  static constexpr int32_t kSkip = -1;

  FieldSet(std::span<const MoleculeSchema> schemas, const Request& request);

  size_t size() const { return heads_->fields().size(); }
  const std::shared_ptr<const FieldTable>& heads() const { return heads_; }

  // The field behind a declaration of a schema, or kSkip where it was not selected.
  int32_t of_declaration(int32_t schema, int32_t declaration) const {
    return slots_[static_cast<size_t>(schema)][static_cast<size_t>(declaration)];
  }

  // The plan of a field from what the touched schemas declare (of all schemas, where these declare nothing) and what
  // was observed. Its width is that of all schemas together, whichever are touched. Throws FieldError where types
  // cannot stand in one tensor.
  FieldPlan resolve(size_t field, std::span<const int32_t> touched, std::span<const Observation* const> observed,
                    int64_t n_molecules) const;

  // Whether this schema settles all fields it declares without a look at the records.
  bool is_settled_by(int32_t schema) const;

 private:
  struct Declared {
    int32_t schema;
    FieldType type;
    std::optional<Shape> row_shape;
  };
  std::vector<const Declared*> declarations(size_t field, std::span<const int32_t> touched) const;
  FieldType widest(size_t field, const FieldType& touched) const;

  const Request& request_;
  std::shared_ptr<const FieldTable> heads_;
  std::vector<std::vector<Declared>> declared_;  // by field
  std::vector<std::vector<int32_t>> slots_;      // schema, declaration -> field
};

// The type and row shape of a field in every batch of these schemas, selected or not.
struct FieldPromise {
  FieldId id;
  FieldType type;                  // dtype: that of the output
  std::optional<Shape> row_shape;  // absent: differs from molecule to molecule
};

// A promise for each field that a schema lists, in the order in which they first occur. Of types that do not mix, the
// first counts. Casts need not be possible: a batch will tell.
std::vector<FieldPromise> promised_fields(std::span<const MoleculeSchema> schemas, const Request& request);

// The plan of a field that no schema lists.
FieldPlan resolve_unlisted(const FieldHead& head, std::span<const Observation* const> observed, int64_t n_molecules,
                           const Request& request);

// The positions' type in every batch of these schemas.
DType resolve_positions(std::span<const MoleculeSchema> schemas, const Request& request);

}  // namespace atompack::collate
