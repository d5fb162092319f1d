// The schema of a cache file; FORMAT.md#attributes. No HDF5 here: attributes in, checked facts out.
#pragma once

#include <optional>

#include "base/dtype.h"
#include "formats/torch_cache/hdf5/attributes.h"

namespace atompack::torch_cache {

// The attributes of each group that is there, under the file's own names.
struct Info {
  Attributes root;  // settings of the energy filter
  std::optional<Attributes> manifest;
  std::optional<Attributes> cache;  // of version 2
  std::optional<Attributes> force_derivatives;
};

// The names that are read of each group, in the order of FORMAT.md.
std::span<const AttributeName> root_names();
std::span<const AttributeName> manifest_names();
std::span<const AttributeName> cache_names();
std::span<const AttributeName> force_derivative_names();

// The descriptor that made the numbers. Two are the same when their JSON is, byte for byte.
struct Descriptor {
  std::string compat_json;
  std::string sha256;
  std::optional<int64_t> n_features;  // absent: not a descriptor whose numbers of features are known here
};

struct DerivativeSchema {
  int64_t n_radial = 0;  // functions, FORMAT.md#force-derivatives
  int64_t n_angular = 0;
  bool multi = false;  // whether rows carry type weights
};

struct Schema {
  bool is_legacy = false;  // version 1
  bool has_features = false;
  std::optional<Descriptor> descriptor;  // absent: no cache section
  std::optional<DType> storage_dtype;
  std::optional<DerivativeSchema> derivatives;
};

// Checks the attributes of the root's groups except force_derivatives, and says which sections the file has.
// Throws CorruptFileError where they contradict the format or each other, UnsupportedFormatError for other versions.
Schema check_schema(const Info& info);
// Those of the section of derivatives, of either version.
void check_derivatives(const Attributes& attributes, Schema& schema);

// Throws FieldError unless the cache was made by this descriptor.
void require_descriptor(const Schema& schema, std::string_view compat_json);

}  // namespace atompack::torch_cache
