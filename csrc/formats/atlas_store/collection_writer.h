// Writer of collections of version 8 (FORMAT.md, "Collections").
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "codec/codec.h"
#include "formats/atlas_store/store.h"
#include "io/file_system.h"

namespace atompack::atlas_store {

struct CollectionOptions {
  codec::Codec codec = codec::Codec::zstd;
  int level = 3;
  unsigned n_threads = 1;
};

// Writes datasets of a store or collection to a new container, which appears under its name when it is complete.
// Chunks are copied as they are, and statistics computed from them. Attributes `VARIABLE.KEY` of the datasets of
// versions 0 and 1 become those of the variable. Throws IoError, also if the file exists; FieldError for names and
// types that collections cannot have; the errors of reading the store.
void write_collection(const Store& store, std::span<const uint32_t> datasets, const std::string& path,
                      const CollectionOptions& options, io::FileSystem& files = io::real_file_system());

}  // namespace atompack::atlas_store
