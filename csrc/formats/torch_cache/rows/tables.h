// Everything in a cache file except its payloads: groups, attributes, index tables and references, written by HDF5.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"

namespace atompack::torch_cache {

// Record that a builder keeps of each written entry: enough to make indexes and references at the end.
struct EntryRecord {
  uint64_t address = 0;  // of the entry's collection
  uint32_t structure_bytes = 0;
  int32_t n_atoms = 0;
  double energy = 0;  // NaN: absent
  bool has_forces = false;
  bool has_derivatives = false;
  int64_t n_edges = 0, n_triplets = 0;
  std::string name;
};

// Object numbers in a collection; derivatives in the order of Column.
inline constexpr uint32_t kStructureObject = 1, kFeaturesObject = 2, kFirstDerivativeObject = 3;

void append_record(const EntryRecord& record, std::vector<std::byte>& to);
EntryRecord read_record(ByteCursor& cursor);

// Name and settings of the descriptor, FORMAT.md#attributes.
struct Manifest {
  std::string descriptor_class, config_json, config_sha256;
};

// Metadata of a cache file.
struct CacheHeader {
  bool features = false, force_derivatives = false;
  DType storage = DType::float64;
  int64_t n_features = 0, n_radial = 0, n_angular = 0;
  bool multi = false;
  std::string compat_json, compat_sha256;
  Manifest manifest;  // empty: the original needs the descriptor from its user
  std::string source_id, source_kind;
};

// Returns an HDF5 file with only the root group.
std::vector<std::byte> empty_file();

// Sets the end of the file for HDF5: everything before it counts as allocated.
void set_end(std::span<std::byte> head, uint64_t end);

// Adds everything to a file that consists of an empty_file() and the entries' collections. Throws IoError without a
// path.
void write_tables(const std::string& path, const CacheHeader& header, std::span<const EntryRecord> records);

// True if the tables of a file are those of these entries. Throws CorruptFileError if they cannot be read.
bool has_tables(Bytes file, const CacheHeader& header, std::span<const EntryRecord> records);

}  // namespace atompack::torch_cache
