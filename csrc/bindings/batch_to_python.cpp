#include "bindings/batch_to_python.h"

#include <pybind11/stl.h>

#include "bindings/atlas_values.h"
#include "bindings/enum_casters.h"
#include "bindings/errors.h"
#include "bindings/example_reader.h"
#include "bindings/tensor_caster.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using collate::Batch;
using collate::ColumnBatch;
using collate::ExampleBatch;
using collate::IncompatibleExamples;
using collate::ScannedColumn;
using plan::ExampleNode;

constexpr auto to_object = []<typename Held>(Held& held) -> py::object {
  if constexpr (std::is_same_v<Held, collate::Strings>) {
    py::list strings(held.size());
    for (size_t i = 0; i < held.size(); ++i) strings[i] = held[i] ? to_str(*held[i]) : py::object(py::none());
    return strings;
  } else {
    return py::cast(std::move(held));
  }
};

py::list values_of(Batch& batch) {
  const std::array structure{&batch.positions, &batch.atomic_numbers, &batch.batch,
                             &batch.ptr,       &batch.n_atoms,        &batch.index};
  py::list all(structure.size() + batch.edges.size() + batch.outputs.size() + batch.values.size());
  size_t place = 0;
  for (const at::Tensor* tensor : structure) all[place++] = py::cast(*tensor);
  for (const at::Tensor& tensor : batch.edges) all[place++] = py::cast(tensor);
  for (const at::Tensor& tensor : batch.outputs) all[place++] = py::cast(tensor);
  for (auto& value : batch.values) all[place++] = std::visit(to_object, value);
  return all;
}

py::list strings_of(const ScannedColumn& column) {
  const bool is_jagged = column.offsets.defined();
  py::list all;
  for (size_t i = 0; i < column.strings.size(); ++i) {
    const auto& row = column.strings[i];
    if (row && is_jagged) all += nested_strings(*row, column.shapes[i], column.kind);
    if (!is_jagged) all.append(row ? nested_strings(*row, column.shapes[i], column.kind) : py::object(py::none()));
  }
  return all;
}

py::tuple column_of(const ScannedColumn& column) {
  py::object values;
  if (column.kind != ColumnKind::numeric) {
    values = strings_of(column);
  } else {
    values = column.values.defined() ? py::cast(column.values) : py::cast(column.list);
  }
  return py::make_tuple(values, column.offsets, column.mask);
}

// Makes the Python objects of a batch of examples.
class ExampleObjects {
 public:
  ExampleObjects(ExampleBatch& batch, const py::object& molecules) : batch_(batch), molecules_(molecules) {}

  py::object node(const ExampleNode& node) {
    switch (node.form) {
      case ExampleNode::Form::tensor:
        return tensor(node.leaves.front());
      case ExampleNode::Form::tensors:
        return list(node.leaves, [&](size_t leaf) { return tensor(leaf); });
      case ExampleNode::Form::jagged:
        return py::make_tuple(tensor(node.leaves[0]), tensor(node.leaves[1]));
      case ExampleNode::Form::strings:
        return list(node.strings, to_str);
      case ExampleNode::Form::bytes:
        return list(node.strings, [](const std::string& bytes) { return py::bytes(bytes); });
      case ExampleNode::Form::dict:
        return dict(node);
      case ExampleNode::Form::list:
        return list(node.children, [&](const ExampleNode& child) { return this->node(child); });
      case ExampleNode::Form::molecules:
        return molecules(batch_.molecules[node.molecules]);
    }
    throw InternalError("form of a batch out of range");
  }

 private:
  py::object molecules(Batch& batch) const {
    return molecules_(batch.arena, field_entries(*batch.table), values_of(batch), batch.masks);
  }

  py::object tensor(size_t leaf) const { return py::cast(batch_.tensors[leaf]); }

  template <typename Items, typename Make>
  static py::list list(const Items& items, const Make& make) {
    py::list objects;
    for (const auto& item : items) objects.append(make(item));
    return objects;
  }

  py::dict dict(const ExampleNode& parent) {
    py::dict made;
    for (size_t i = 0; i < parent.children.size(); ++i) {
      const ExampleNode& child = parent.children[i];
      const py::object key = to_str(parent.keys[i]);
      if (child.form != ExampleNode::Form::jagged) {
        made[key] = node(child);
        continue;
      }
      made[key] = tensor(child.leaves[0]);
      made[to_str(parent.keys[i] + "_offsets")] = tensor(child.leaves[1]);
    }
    return made;
  }

  ExampleBatch& batch_;
  const py::object& molecules_;
};

struct HandOver {
  const py::object& molecules;

  py::tuple operator()(Batch& batch) const { return batch_to_python(std::move(batch)); }

  py::tuple operator()(const ColumnBatch& batch) const {
    py::list columns, names;
    for (const ScannedColumn& column : batch.columns) columns.append(column_of(column));
    for (const int64_t dataset : batch.datasets) names.append(str_from_bytes(batch.source->dataset_name(dataset)));
    return py::make_tuple(batch.arena, columns, names);
  }

  py::tuple operator()(ExampleBatch& batch) const {
    return py::make_tuple(batch.arena, ExampleObjects(batch, molecules).node(batch.root), py::none());
  }

  py::tuple operator()(const IncompatibleExamples& unlike) const {
    py::list examples;
    for (const Value& value : unlike.examples.values) examples.append(to_python(value));
    return py::make_tuple(py::none(), examples, unlike.numbers);
  }
};

}  // namespace

py::list field_entries(const plan::FieldTable& table) {
  py::list all;
  for (const auto& entry : table.fields())
    all.append(py::make_tuple(entry.id.scope, to_str(entry.id.key), entry.level));
  return all;
}

py::tuple batch_to_python(Batch batch) {
  py::list faults;
  for (const auto& fault : batch.faults) faults.append(py::make_tuple(fault.field, fault.message));
  return py::make_tuple(batch.arena, std::const_pointer_cast<plan::FieldTable>(batch.table), values_of(batch),
                        batch.masks, faults);
}

py::tuple batch_to_python(collate::AnyBatch batch, const py::object& molecules) {
  return std::visit(HandOver{molecules}, batch);
}

}  // namespace atompack::bindings
