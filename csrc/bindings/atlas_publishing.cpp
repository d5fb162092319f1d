// Records and metadata of ATLAS stores as Python uploads them to remote stores.

#include "bindings/bindings.h"
#include "bindings/bytes.h"
#include "formats/array_file/layer/layer.h"
#include "formats/atlas_store/flush.h"
#include "formats/atlas_store/metadata/metadata_file.h"
#include "io/open_file.h"

namespace atompack::bindings {

using atlas_store::AddedLayer;
using atlas_store::Fingerprint;
using atlas_store::Intent;

ATOMPACK_TUPLE(Fingerprint, bytes, sha256);
ATOMPACK_TUPLE(AddedLayer, variable, number, digest);
ATOMPACK_TUPLE(Intent, complete, before, after, layers, id, stamp, renewed);

namespace {

py::bytes stamp_metadata(const std::string& name, const py::bytes& file, const std::string& stamp) {
  return to_bytes(without_gil([&, data = bytes_in(file)] { return atlas_store::stamp_metadata(name, data, stamp); }));
}

Fingerprint fingerprint_of(const py::bytes& file) {
  return without_gil([data = bytes_in(file)] { return atlas_store::fingerprint_of(data); });
}

std::string layer_digest(const Path& path) { return array_file::layer_digest(*io::open_file(path.bytes)); }

}  // namespace

void bind_atlas_publishing(py::module_& module) {
  module.def("stamp_metadata", &stamp_metadata, "name"_a, "file"_a, "stamp"_a);
  module.def("fingerprint_of_metadata", &fingerprint_of, "file"_a);
  module.def("array_layer_digest", unlocked(&layer_digest), "path"_a);
  module.def(
      "encode_flush_record", [](const Intent& record) { return py::bytes(atlas_store::encode_intent(record)); },
      "record"_a);
  module.def(
      "decode_flush_record", [](const py::bytes& file) { return atlas_store::decode_intent(bytes_in(file)); },
      "file"_a);
}

}  // namespace atompack::bindings
