#include "bindings/bindings.h"
#include "bindings/example_reader.h"
#include "serial/pickle/machine.h"

namespace atompack::bindings {
namespace {

// Torch-geometric graphs: those of 1.x have their tensors as attributes, those from 2.0 on in a storage, which
// refers to its owner.
constexpr std::array<std::string_view, 2> kAttributeClasses = {"_edge_attr_cls", "_tensor_attr_cls"};
constexpr std::array<std::string_view, 1> kOwner = {"_parent"};
constexpr std::array kClasses = {
    pickle::RecordClass{"torch_geometric.data.data", "Data", kAttributeClasses},
    pickle::RecordClass{"torch_geometric.data.storage", "GlobalStorage", kOwner},
    pickle::RecordClass{"torch_geometric.data.data", "DataEdgeAttr"},
    pickle::RecordClass{"torch_geometric.data.data", "DataTensorAttr"},
};

// Reads pickles of plain data and of graphs, which become dicts of their attributes.
class PickleReader {
 public:
  py::object read(const py::bytes& pickle) {
    return to_python(machine_.run(as_bytes(static_cast<std::string_view>(pickle))));
  }

 private:
  pickle::Machine machine_{kClasses};
};

}  // namespace

void bind_pickles(py::module_& module) {
  py::class_<PickleReader>(module, "PickleReader").def(py::init<>()).def("read", &PickleReader::read, "pickle"_a);
}

}  // namespace atompack::bindings
