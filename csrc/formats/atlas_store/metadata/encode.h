// Metadata into a document, byte by byte as the original writes it.
#pragma once

#include <string>

#include "formats/atlas_store/metadata/metadata.h"

namespace atompack::atlas_store {

// Throw FieldError, which names the dataset, for attributes that the form cannot hold: in JSON numbers that are not
// finite, in MessagePack texts that would come back as moments.
std::string encode_json(const Metadata& metadata);
std::string encode_msgpack(const Metadata& metadata);

}  // namespace atompack::atlas_store
