// Encoding of metadata as a document, byte for byte as the original writes it.
#pragma once

#include <string>

#include "formats/atlas_store/metadata/metadata.h"

namespace atompack::atlas_store {

// Throw FieldError, which names the dataset, for attributes that the form cannot hold: non-finite numbers in JSON,
// strings that would be read back as timestamps in MessagePack.
std::string encode_json(const Metadata& metadata);
std::string encode_msgpack(const Metadata& metadata);

}  // namespace atompack::atlas_store
