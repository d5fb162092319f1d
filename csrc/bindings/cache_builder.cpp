#include "bindings/bindings.h"

#include "bindings/locked.h"
#include "bindings/tensor_caster.h"
#include "collate/arena.h"
#include "formats/torch_cache/build/builder.h"

namespace atompack::bindings {
namespace {

using torch_cache::Builder;
using torch_cache::CacheHeader;
using torch_cache::DerivativeColumns;
using torch_cache::EncodedEntries;
using torch_cache::EntryColumns;
using torch_cache::LabelColumn;
using torch_cache::ValueColumn;

// Tensors of a batch by name, with NAME_mask for labels; missing ones are nullopt or omitted.
using NamedTensors = std::map<std::string, std::optional<at::Tensor>>;

void check_plain(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!tensor) continue;
    if (!tensor->is_cpu() || tensor->layout() != at::kStrided || !tensor->is_contiguous() || tensor->is_neg()) {
      throw FieldError(cat(name, ": expected a contiguous tensor on the CPU, got another")).at_field(name);
    }
  }
}

const at::Tensor* find(const NamedTensors& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() || !found->second ? nullptr : &*found->second;
}

template <typename T>
const T* data_of(const NamedTensors& tensors, const std::string& name) {
  const at::Tensor* const tensor = find(tensors, name);
  return tensor == nullptr ? nullptr : tensor->const_data_ptr<T>();
}

std::span<const int64_t> ints_of(const NamedTensors& tensors, const std::string& name) {
  const at::Tensor& tensor = *find(tensors, name);
  return {tensor.const_data_ptr<int64_t>(), static_cast<size_t>(tensor.numel())};
}

template <typename T>
LabelColumn<T> label_of(const NamedTensors& tensors, const std::string& name) {
  return {data_of<T>(tensors, name), data_of<bool>(tensors, name + "_mask")};
}

ValueColumn values_of(const NamedTensors& tensors, const std::string& name) {
  const at::Tensor* const tensor = find(tensors, name);
  if (tensor == nullptr) return {};
  const int64_t rows = tensor->size(0);
  const auto row = static_cast<size_t>(rows == 0 ? 1 : tensor->numel() / rows);
  return {static_cast<const std::byte*>(tensor->const_data_ptr()), collate::dtype_of(tensor->scalar_type()), row};
}

DerivativeColumns derivatives_of(const NamedTensors& tensors) {
  DerivativeColumns all;
  all.edge_ptr = ints_of(tensors, "edge_ptr");
  all.triplet_ptr = ints_of(tensors, "triplet_ptr");
  all.radial_center = data_of<int64_t>(tensors, "radial_center_idx");
  all.radial_neighbor = data_of<int64_t>(tensors, "radial_neighbor_idx");
  all.radial_gradients = values_of(tensors, "radial_dG_drij");
  all.radial_typespin = values_of(tensors, "radial_neighbor_typespin");
  all.angular_center = data_of<int64_t>(tensors, "angular_center_idx");
  all.angular_j = data_of<int64_t>(tensors, "angular_neighbor_j_idx");
  all.angular_k = data_of<int64_t>(tensors, "angular_neighbor_k_idx");
  all.angular_gradients = {values_of(tensors, "angular_grads_i"), values_of(tensors, "angular_grads_j"),
                           values_of(tensors, "angular_grads_k")};
  all.angular_typespin = values_of(tensors, "angular_triplet_typespin");
  return all;
}

EntryColumns entry_columns(const NamedTensors& tensors, const CacheHeader& header) {
  check_plain(tensors);
  EntryColumns entries;
  entries.ptr = ints_of(tensors, "ptr");
  entries.positions = data_of<double>(tensors, "positions");
  entries.atomic_numbers = ints_of(tensors, "atomic_numbers");
  entries.energy = label_of<double>(tensors, "energy");
  entries.forces = label_of<double>(tensors, "forces");
  entries.cell = label_of<double>(tensors, "cell");
  entries.pbc = label_of<bool>(tensors, "pbc");
  if (header.features) entries.features = values_of(tensors, "features");
  if (header.force_derivatives) entries.derivatives = derivatives_of(tensors);
  entries.storage = header.storage;
  return entries;
}

std::shared_ptr<EncodedEntries> encode(const NamedTensors& columns, std::vector<std::optional<std::string>> names,
                                       const std::vector<std::string>& symbols, const CacheHeader& header) {
  EntryColumns entries = entry_columns(columns, header);
  entries.symbols = symbols;
  entries.names = std::move(names);
  return without_gil([&] { return std::make_shared<EncodedEntries>(encode_entries(entries)); });
}

// Builder with a close() that closes its files even if a traceback still refers to the object.
class ClosableBuilder {
 public:
  ClosableBuilder(const std::string& path, const CacheHeader& header, const std::string& fingerprint, uint64_t bytes)
      : builder_(std::make_unique<Builder>(path, header, fingerprint, bytes)) {}

  Builder& get() const {
    if (!builder_) throw py::value_error("the builder is closed");
    return *builder_;
  }
  void close() { builder_.reset(); }

 private:
  std::unique_ptr<Builder> builder_;
};

using LockedBuilder = Locked<ClosableBuilder>;

UniqueHandle<LockedBuilder> open_builder(const Path& path, const CacheHeader& header, const std::string& fingerprint,
                                         uint64_t checkpoint_bytes) {
  return make_unique_handle<LockedBuilder>(path.bytes, header, fingerprint, checkpoint_bytes);
}

void bind_builder(py::module_& module) {
  using Self = LockedBuilder;
  py::class_<Self, UniqueHandle<Self>>(module, "CacheBuilder")
      .def(py::init(unlocked(&open_builder)), py::arg("path"), py::arg("header"), py::arg("fingerprint"),
           py::arg("checkpoint_bytes"))
      .def("__len__", [](Self& self) { return self.use([](auto& builder) { return builder.get().n_entries(); }); })
      .def(
          "append",
          [](Self& self, EncodedEntries& entries) {
            self.use([&](auto& builder) { builder.get().append(std::move(entries)); });
          },
          py::arg("entries"))
      .def(
          "absorb",
          [](Self& self, const Path& part, const std::string& fingerprint, size_t n_known) {
            self.use([&](auto& builder) { builder.get().absorb(part.bytes, fingerprint, n_known); });
          },
          py::arg("part"), py::arg("fingerprint"), py::arg("n_known") = 0)
      .def("checkpoint", [](Self& self) { self.use([](auto& builder) { builder.get().checkpoint(); }); })
      .def("finish", [](Self& self) { self.use([](auto& builder) { builder.get().finish(); }); })
      .def("discard", [](Self& self) { self.use([](auto& builder) { builder.get().discard(); }); })
      .def("close", [](Self& self) { self.use([](auto& builder) { builder.close(); }); });
}

}  // namespace

void bind_cache_builder(py::module_& module) {
  py::class_<CacheHeader>(module, "CacheHeader")
      .def(py::init<>())
      .def_readwrite("features", &CacheHeader::features)
      .def_readwrite("force_derivatives", &CacheHeader::force_derivatives)
      .def_readwrite("storage_dtype", &CacheHeader::storage)
      .def_readwrite("n_features", &CacheHeader::n_features)
      .def_readwrite("n_radial", &CacheHeader::n_radial)
      .def_readwrite("n_angular", &CacheHeader::n_angular)
      .def_readwrite("multi", &CacheHeader::multi)
      .def_readwrite("compat_json", &CacheHeader::compat_json)
      .def_readwrite("compat_sha256", &CacheHeader::compat_sha256)
      .def_readwrite("source_id", &CacheHeader::source_id)
      .def_readwrite("source_kind", &CacheHeader::source_kind)
      .def("set_manifest", [](CacheHeader& self, std::string kind, std::string json, std::string sha256) {
        self.manifest = {std::move(kind), std::move(json), std::move(sha256)};
      });
  py::class_<EncodedEntries, std::shared_ptr<EncodedEntries>>(module, "EncodedEntries")
      .def_property_readonly("n_bytes", [](const EncodedEntries& self) { return self.bytes.size(); });
  module.def("encode_cache_entries", &encode, py::arg("columns"), py::arg("names"), py::arg("symbols"),
             py::arg("header"));
  bind_builder(module);
}

}  // namespace atompack::bindings
