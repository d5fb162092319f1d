#include "formats/atlas_store/metadata/decode.h"

#include "formats/atlas_store/metadata/metadata_decoder.h"
#include "serial/json/reader.h"
#include "serial/msgpack/reader.h"

namespace atompack::atlas_store {

Metadata decode_json(Bytes text) { return MetadataDecoder<serial::JsonReader>(text).decode(); }
Metadata decode_msgpack(Bytes bytes) { return MetadataDecoder<serial::MsgpackReader>(bytes).decode(); }

}  // namespace atompack::atlas_store
