// Records and metadata of ATLAS stores as Python uploads them to remote stores.
#include <pybind11/stl.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "bindings/bindings.h"
#include "bindings/errors.h"
#include "bindings/gil.h"
#include "bindings/path.h"
#include "formats/array_file/layer/layer.h"
#include "formats/atlas_store/flush.h"
#include "formats/atlas_store/metadata/metadata_file.h"
#include "io/open_file.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using atlas_store::AddedLayer;
using atlas_store::Fingerprint;
using atlas_store::Intent;

// size and SHA-256
using PyFingerprint = std::tuple<uint64_t, std::string>;
// variable, number, digest
using PyLayer = std::tuple<std::string, uint32_t, std::string>;
// complete, before, after, layers, id, stamp, renewed
using PyRecord = std::tuple<bool, std::optional<PyFingerprint>, PyFingerprint, std::vector<PyLayer>, std::string,
                            std::string, std::optional<PyFingerprint>>;

Fingerprint from_tuple(const PyFingerprint& fingerprint) {
  return {std::get<0>(fingerprint), std::get<1>(fingerprint)};
}

std::optional<Fingerprint> from_tuple(const std::optional<PyFingerprint>& fingerprint) {
  if (!fingerprint) return std::nullopt;
  return from_tuple(*fingerprint);
}

PyFingerprint to_tuple(const Fingerprint& fingerprint) { return {fingerprint.bytes, fingerprint.sha256}; }

std::optional<PyFingerprint> to_tuple(const std::optional<Fingerprint>& fingerprint) {
  if (!fingerprint) return std::nullopt;
  return to_tuple(*fingerprint);
}

Intent from_tuple(const PyRecord& record) {
  const auto& [complete, before, after, layers, id, stamp, renewed] = record;
  Intent intent;
  intent.complete = complete;
  intent.before = from_tuple(before);
  intent.after = from_tuple(after);
  for (const auto& [variable, number, digest] : layers) intent.layers.push_back({variable, number, digest});
  intent.id = id;
  intent.stamp = stamp;
  intent.renewed = from_tuple(renewed);
  return intent;
}

PyRecord to_tuple(const Intent& intent) {
  std::vector<PyLayer> layers;
  for (const AddedLayer& layer : intent.layers) layers.emplace_back(layer.variable, layer.number, layer.digest);
  return {intent.complete, to_tuple(intent.before), to_tuple(intent.after), std::move(layers), intent.id,
          intent.stamp,    to_tuple(intent.renewed)};
}

Bytes bytes_of(const py::bytes& value) { return as_bytes(std::string_view(value)); }

// `name`: of the metadata file, which gives its form. An empty file stands for that of a store without datasets.
std::string stamped(const std::string& name, Bytes file, std::string stamp) {
  const auto found = std::ranges::find(atlas_store::kFileNames, name);
  if (found == atlas_store::kFileNames.end()) throw FieldError(cat(name, ": expected the name of a metadata file"));
  const auto form = static_cast<atlas_store::Form>(found - atlas_store::kFileNames.begin());
  atlas_store::Metadata metadata;
  if (!file.empty()) metadata = atlas_store::decode_metadata({form, name, {file.begin(), file.end()}});
  metadata.stamp = std::move(stamp);
  return std::string(as_text(atlas_store::encode_metadata(metadata, form)));
}

}  // namespace

void bind_atlas_publishing(py::module_& module) {
  module.def(
      "stamp_metadata",
      [](const std::string& name, const py::bytes& file, const std::string& stamp) {
        return py::bytes(without_gil([&, data = bytes_of(file)] { return stamped(name, data, stamp); }));
      },
      py::arg("name"), py::arg("file"), py::arg("stamp"));
  module.def(
      "fingerprint_of_metadata",
      [](const py::bytes& file) {
        return to_tuple(without_gil([data = bytes_of(file)] { return atlas_store::fingerprint_of(data); }));
      },
      py::arg("file"));
  module.def("array_layer_digest", unlocked([](const Path& path) {
               return array_file::layer_digest(*io::open_file(io::Location(path.bytes)));
             }),
             py::arg("path"));
  module.def(
      "encode_flush_record",
      [](const PyRecord& record) { return py::bytes(atlas_store::encode_intent(from_tuple(record))); },
      py::arg("record"));
  module.def(
      "decode_flush_record", [](const py::bytes& file) { return to_tuple(atlas_store::decode_intent(bytes_of(file))); },
      py::arg("file"));
}

}  // namespace atompack::bindings
