// Schema of a cache file; FORMAT.md#attributes. Without HDF5: converts attributes to checked values.
#pragma once

#include <optional>

#include "base/dtype.h"
#include "formats/torch_cache/hdf5/attributes.h"

namespace atompack::torch_cache {

// Attributes of each existing group, under the file's own names.
struct Info {
  Attributes root;  // settings of the energy filter
  std::optional<Attributes> manifest;
  std::optional<Attributes> cache;  // of version 2
  std::optional<Attributes> force_derivatives;
};

// Attribute names that are read for each group, in the order of FORMAT.md.
std::span<const AttributeName> root_names();
std::span<const AttributeName> manifest_names();
std::span<const AttributeName> cache_names();
std::span<const AttributeName> force_derivative_names();

// Descriptor that computed the values. Two are the same if their JSON is identical byte for byte.
struct Descriptor {
  std::string compat_json;
  std::string sha256;
  std::optional<int64_t> n_features;  // nullopt: unknown for this descriptor
};

struct DerivativeSchema {
  int64_t n_radial = 0;  // functions, FORMAT.md#force-derivatives
  int64_t n_angular = 0;
  bool multi = false;  // rows have type weights
};

struct Schema {
  bool is_legacy = false;  // version 1
  bool has_features = false;
  std::optional<Descriptor> descriptor;  // nullopt: no cache section
  std::optional<DType> storage_dtype;
  std::optional<DerivativeSchema> derivatives;
};

// Checks the attributes of all groups except force_derivatives; the result says which sections the file has. Throws
// CorruptFileError if they contradict the format or each other, UnsupportedFormatError for other versions.
Schema check_schema(const Info& info);
// Checks the attributes of the derivatives section, of either version.
void check_derivatives(const Attributes& attributes, Schema& schema);

// Throws CorruptFileError for a text that is not UTF-8.
void check_text(const Attributes& attributes);

}  // namespace atompack::torch_cache
