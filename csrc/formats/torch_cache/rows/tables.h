// All of a cache file but its payloads: groups, attributes, index tables and references, written by HDF5.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "formats/torch_cache/build/entry_record.h"

namespace atompack::torch_cache {

// What the descriptor is called and how it was set, FORMAT.md#descriptor-manifest.
struct Manifest {
  std::string descriptor_class, config_json, config_sha256;
};

// What a cache file says of itself.
struct CacheHeader {
  bool features = false, force_derivatives = false;
  DType storage = DType::float64;
  int64_t n_features = 0, n_radial = 0, n_angular = 0;
  bool multi = false;
  std::string compat_json, compat_sha256;
  Manifest manifest;  // empty: the original must be told the descriptor
  std::string source_id, source_kind;
};

// An HDF5 file of which nothing but the root group is there.
std::vector<std::byte> empty_file();

// Makes the file end at `end`, for HDF5: what lies before it is taken, whatever it is.
void set_end(std::span<std::byte> head, uint64_t end);

// Adds everything to a file that holds an empty_file() and the entries' collections up to its end.
void write_tables(const std::string& path, const CacheHeader& header, std::span<const EntryRecord> records);

}  // namespace atompack::torch_cache
