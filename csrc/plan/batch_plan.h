// Plan of a batch of molecules and of its edges, before data is copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/checked_math.h"
#include "base/dtype.h"
#include "model/molecule_source.h"
#include "physics/neighbors/neighbors.h"
#include "physics/neighbors/pair_list.h"
#include "plan/arena_layout.h"
#include "plan/request.h"

namespace atompack::plan {

// Neighbor lists of all molecules of a source, found once and kept in memory.

// Edges are in the order of the molecules; atoms and edges are numbered within each molecule.
struct PrecomputedEdges {
  physics::NeighborOptions options;
  DType floating = DType::float32;          // of vectors
  DType shift = DType::int8;                // int8 or float32
  std::span<const int64_t> edge_ptr;        // (molecules + 1,)
  std::span<const int64_t> triplet_ptr;     // (molecules + 1,)
  std::span<const int32_t> i, j;            // (edges,)
  Bytes shifts;                             // (edges, 3)
  Bytes vectors;                            // (edges, 3); empty without vectors
  std::span<const int32_t> edge_j, edge_k;  // (triplets,)
  std::shared_ptr<const void> owner;        // of the memory

  // True if a batch with these options, whose positions are of this type, has the same edges.
  bool serve(const physics::NeighborOptions& wanted, DType positions) const {
    return wanted.cutoff == options.cutoff && wanted.full == options.full &&
           wanted.self_interaction == options.self_interaction && wanted.max_neighbors == options.max_neighbors &&
           (!wanted.triplet_cutoff || wanted.triplet_cutoff == options.triplet_cutoff) &&
           (!wanted.vectors || (options.vectors && (positions == floating || floating == DType::float64)));
  }
};

// Neighbor lists of a batch and their offsets in its arena.
struct Edges {
  // One for each range of molecules between two borders.
  std::vector<physics::PooledPairs> parts;
  std::vector<int64_t> borders;
  bool has_vectors = false;
  std::vector<physics::AngularPairs> angular;  // of each range; empty unless triplets are requested
  // Offsets in the arena.
  size_t index = 0, shift = 0, vector = 0;
  DType shift_dtype = DType::float32;
  // The rows of the index are i, j, i instead of i, j: the last two are the edges with their directions reversed.
  bool has_reversed = false;
  size_t triplet_index = 0, triplet_edges = 0;
  // Instead of parts and angular: edges that were found before, and the first of each molecule in the batch.
  const PrecomputedEdges* kept = nullptr;
  bool takes_triplets = false;
  std::vector<int64_t> kept_ptr, kept_triplet_ptr;  // (molecules + 1,)

  bool has_triplets() const { return kept != nullptr ? takes_triplets : !angular.empty(); }

  int64_t count() const {
    if (kept != nullptr) return kept_ptr.back();
    size_t sum = 0;
    for (const physics::PooledPairs& part : parts) sum += part->size();
    return static_cast<int64_t>(sum);
  }

  uint64_t count_triplets() const {
    if (kept != nullptr) return static_cast<uint64_t>(kept_triplet_ptr.back());
    uint64_t sum = 0;
    for (const physics::AngularPairs& part : angular) sum = checked_add(sum, part.n_triplets, "number of triplets");
    return sum;
  }
};

// Plan of a batch of molecules: type, shape and arena offset of every output, before anything is written.

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
  bool has_structure = true;      // false: positions, atomic numbers and the molecule of each atom have no rows
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

// Appends the outputs to the arena, except for those that equal a field or the edges, whose memory the first such
// output shares. Throws FieldError if an output cannot be made of its field.
void lay_out_outputs(BatchPlan& plan, std::span<const Output> outputs);

int64_t total_work(const BatchPlan& plan);

// Splits the batch into at most max_ranges ranges of about equal work; returns their borders.
std::vector<int64_t> split_by_work(const BatchPlan& plan);

}  // namespace atompack::plan
