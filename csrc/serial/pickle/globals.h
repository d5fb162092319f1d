// The globals that a pickle may name and their meaning here. Nothing is imported and no Python function is called.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/value.h"

namespace atompack::pickle {

enum class Global : uint8_t {
  reconstruct,      // numpy: an array to be filled by BUILD
  ndarray,          // numpy: the class
  dtype,            // numpy
  from_buffer,      // numpy: an array over bytes
  scalar,           // numpy
  encode,           // string to bytes, protocol 2
  bytes,            // empty bytes, protocol 2
  rebuild_tensor,   // torch
  load_from_bytes,  // torch: a storage
  ordered_dict,     // the hooks of a tensor
  storage,          // torch: the class of a storage, inside its stream
  record,           // a class that the caller allows
};

// A class whose objects are described by a dict of attributes; they are read as records.
struct RecordClass {
  std::string_view module, name;
  std::span<const std::string_view> ignored = {};  // attributes that are left out: classes, references to the owner
};

struct Meaning {
  Global global;
  uint32_t number = 0;  // of the record class or of the storage class
};

// Element type of a torch storage class.
struct StorageClass {
  std::string_view name;
  ElementType element;
};

// Returns nullopt if the pair of names is not allowed; both are compared together.
std::optional<Meaning> find_global(std::string_view module, std::string_view name,
                                   std::span<const RecordClass> classes);
// The same for globals inside a storage stream.
std::optional<Meaning> find_storage_class(std::string_view module, std::string_view name);

const StorageClass& storage_class(uint32_t number);
// Returns nullopt for element types without a storage class.
std::optional<uint32_t> storage_class_of(const ElementType& element);

}  // namespace atompack::pickle
