// Plan of a batch of molecules: type, shape and arena offset of every output, before anything is written.
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

// Entry of a FieldTable.
struct FieldEntry {
  FieldId id;
  Level level;
  ValueKind kind;
};

// Fields of a batch, in order. Batches with the same fields share one table.
class FieldTable {
 public:
  const std::vector<FieldEntry>& fields() const { return fields_; }

  // Returns the index of a field, or -1.
  int32_t find(Scope scope, std::string_view key) const;

  // Returns the index of a field; adds the field if it is new.
  int32_t add(const FieldEntry& entry);

 private:
  std::vector<FieldEntry> fields_;
  std::unordered_map<std::string, int32_t> indices_;  // by scope and key; a malicious record may name thousands
};

// Arena offset and row shape of one molecule's value of a ragged field.
struct RaggedRow {
  bool present = false;
  Shape row_shape;
  size_t offset = 0;
};

struct FieldPlan {
  FieldType type;                 // with the dtype of the output
  DType stored = DType::float64;  // the widest type among the values
  Shape row_shape;
  int64_t row_elements = 1;
  bool must_be_present = false;  // a missing value throws FieldError
  bool absent_is_zero = false;   // missing values are 0; if false, NaN for types that have it
  bool ragged = false;           // one tensor per molecule instead of one for the batch
  size_t offset = 0;
  std::vector<RaggedRow> rows;  // of a ragged field, one per molecule
};

// Arena offsets of the tensors that every batch has.
struct CoreOffsets {
  size_t positions = 0, atomic_numbers = 0, batch = 0, ptr = 0, n_atoms = 0, index = 0, masks = 0;
};

struct OutputPlan {
  std::vector<int64_t> shape;
  size_t offset = 0;
  bool is_shared = false;  // its memory is that of an equal field, or of the edges
};

struct BatchPlan {
  std::vector<int64_t> indices;
  std::vector<MoleculeExtent> extents;
  // Prefix sums of the numbers of rows, (molecules + 1,).
  std::vector<int64_t> ptr, edge_ptr, triplet_ptr;
  int64_t max_ranges = 1;  // of molecules, one per thread
  std::shared_ptr<const FieldTable> table;
  std::vector<FieldPlan> fields;  // in the order of the table
  DType positions = DType::float32;
  CoreOffsets core;
  std::optional<Edges> edges;       // if requested; found before the layout, which needs their number
  std::vector<OutputPlan> outputs;  // in the order of the request
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

// Number of records between a prefetch and the use of its data: enough to cover the latency of memory, and few enough
// that the data are still in the cache.
constexpr size_t kPrefetchDistance = 4;

// Computes extents and prefix sums of the plan's indices. Throws CorruptFileError for a wrong index entry.
void count_rows(const MoleculeSource& source, BatchPlan& plan);

// Appends one molecule to extents and prefix sums.
void append_rows(BatchPlan& plan, const MoleculeExtent& extent);

// Chooses the type and the rows of the edges so that outputs may share their memory.
void fit_edges(BatchPlan& plan, std::span<const Output> outputs);

// Assigns arena offsets to all fields and edges, whose types and shapes are known. Throws CorruptFileError if the
// fields are far larger than the records justify.
void lay_out(BatchPlan& plan);

// Assigns offsets in an arena that this batch shares; without edges and without a limit on the size.
void lay_out(BatchPlan& plan, ArenaLayout& layout);

// Returns level and row shape of the field that an output is made of; nullopt if it is made of none. Throws FieldError
// if there is no such field, or its values differ in shape.
std::optional<SourceField> field_of(const BatchPlan& plan, const Output& output);

// Appends the outputs to the arena, but for those that equal a field or the edges, whose memory the first such output
// shares. Throws FieldError if an output cannot be made of its field.
void lay_out_outputs(BatchPlan& plan, std::span<const Output> outputs);

int64_t total_work(const BatchPlan& plan);

// Splits the batch into at most max_ranges ranges of about equal work; returns their borders.
std::vector<int64_t> split_by_work(const BatchPlan& plan);

}  // namespace atompack::collate
