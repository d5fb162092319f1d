// Decoding of metadata from a document (FORMAT.md, "Metadata").
#pragma once

#include "base/bytes.h"
#include "formats/atlas_store/metadata/metadata.h"

namespace atompack::atlas_store {

// Throw CorruptFileError, and UnsupportedFormatError for unknown versions, types and codecs. Errors name dataset and
// array.
// which dataset and array.
Metadata decode_json(Bytes text);
Metadata decode_msgpack(Bytes bytes);

}  // namespace atompack::atlas_store
