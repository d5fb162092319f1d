// Metadata out of a document (FORMAT.md, "Metadata").
#pragma once

#include "base/bytes.h"
#include "formats/atlas_store/metadata/metadata.h"

namespace atompack::atlas_store {

// Throw CorruptFileError, and UnsupportedFormatError for versions, types and codecs that are not known. Errors say of
// which dataset and array.
Metadata decode_json(Bytes text);
Metadata decode_msgpack(Bytes bytes);

}  // namespace atompack::atlas_store
