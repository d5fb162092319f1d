// The plan of a batch: every output's type, shape and place in the arena, before anything is written.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/molecule_source.h"
#include "plan/arena_layout.h"
#include "plan/molecules/edges.h"
#include "plan/molecules/request.h"

namespace atompack::collate {

struct FieldHead {
  FieldId id;
  Level level;
  ValueKind kind;
};

// The fields of a batch, in order. Batches of the same fields share one.
class FieldTable {
 public:
  const std::vector<FieldHead>& fields() const { return fields_; }

  // The place of a field, or -1.
  int32_t find(Scope scope, std::string_view key) const;

  // The place of a field, which is added if it is not there.
  int32_t add(const FieldHead& head);

 private:
  std::vector<FieldHead> fields_;
  std::unordered_map<std::string, int32_t> places_;  // by scope and key: a hostile record may name thousands
};

// Where one molecule's value of a ragged field lies, and the shape of its rows.
struct RaggedRow {
  bool present = false;
  Shape row_shape;
  size_t offset = 0;
};

struct FieldPlan {
  FieldType type;                 // dtype: that of the output
  DType stored = DType::float64;  // the widest type among the values
  Shape row_shape;
  int64_t row_elements = 1;
  bool must_be_present = false;  // absent: FieldError
  bool absent_is_zero = false;   // else NaN, where the type has it
  bool ragged = false;           // one tensor a molecule instead of one for the batch
  size_t offset = 0;
  std::vector<RaggedRow> rows;  // of a ragged field, one a molecule
};

// Places in the arena that every batch has.
struct CoreOffsets {
  size_t positions = 0, atomic_numbers = 0, batch = 0, ptr = 0, n_atoms = 0, index = 0, masks = 0;
};

struct BatchPlan {
  std::vector<int64_t> indices;
  std::vector<MoleculeExtent> extents;
  // Prefix sums of rows, one more than indices.
  std::vector<int64_t> ptr, edge_ptr, triplet_ptr;
  int64_t most_ranges = 1;  // into which the work may be cut, one for each thread
  std::shared_ptr<const FieldTable> table;
  std::vector<FieldPlan> fields;  // as in the table
  DType positions = DType::float32;
  CoreOffsets core;
  std::optional<Edges> edges;  // where the request wants them: found before anything is laid out
  size_t arena_bytes = 0;

  int64_t n_molecules() const { return static_cast<int64_t>(indices.size()); }
  int64_t n_atoms() const { return ptr.back(); }
  int64_t first_row(Level level, size_t molecule) const {
    return level == Level::molecule ? static_cast<int64_t>(molecule) : starts(level)[molecule];
  }
  int64_t n_rows(Level level, size_t molecule) const {
    return first_row(level, molecule + 1) - first_row(level, molecule);
  }
  int64_t n_rows(Level level) const { return first_row(level, indices.size()); }

 private:
  const std::vector<int64_t>& starts(Level level) const {
    return level == Level::atom ? ptr : level == Level::edge ? edge_ptr : triplet_ptr;
  }
};

// How many records ahead of its use one is fetched: far enough for memory to answer, near enough to stay in the cache.
constexpr size_t kPrefetchAhead = 4;

// Sums the extents up; throws where an index entry is wrong.
void count_rows(const MoleculeSource& source, BatchPlan& plan);

// Adds the rows of one molecule more.
void append_rows(BatchPlan& plan, const MoleculeExtent& extent);

// Places every output in the arena; types and shapes are settled. Throws CorruptFileError where the outputs are far
// larger than the records justify.
void lay_out(BatchPlan& plan);

// The same in an arena that holds more than this batch, without edges and without a limit.
void lay_out(BatchPlan& plan, ArenaLayout& layout);

int64_t total_work(const BatchPlan& plan);

// Cuts the batch into ranges of about equal work; returns their borders.
std::vector<int64_t> split_by_work(const BatchPlan& plan);

}  // namespace atompack::collate
