#include "bindings/examples.h"

#include <pybind11/stl.h>

#include "bindings/example_reader.h"
#include "bindings/indices.h"
#include "bindings/tensor_caster.h"
#include "bindings/unlocked.h"
#include "bindings/wait_interruptibly.h"
#include "collate/examples.h"
#include "collate/prefetcher.h"
#include "formats/atlas_shards/source.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using atlas_shards::Reader;
using collate::ArenaKind;
using collate::ExampleBatch;
using collate::ExampleCollator;
using collate::ExampleNode;

py::object read_example(const Reader& reader, uint64_t example) {
  const atlas_shards::Place place = reader.locate(example);
  const auto block = without_gil([&] { return reader.block(place.shard, place.block); });
  return to_python(block->example(place.position));
}

std::shared_ptr<ExampleCollator> make_collator(std::shared_ptr<Reader> reader, bool jagged,
                                               const std::map<std::string, bool>& levels, int max_threads) {
  collate::ExampleOptions options{.jagged = jagged, .levels = {}, .max_threads = max_threads};
  options.levels.insert(levels.begin(), levels.end());
  return make_shared_handle<ExampleCollator>(std::make_shared<atlas_shards::ShardSource>(std::move(reader)),
                                             std::move(options));
}

// Builds the objects of a batch.
class Unfolding {
 public:
  // `molecules` makes a batch of (arena, heads, values, masks).
  Unfolding(const ExampleBatch& batch, const py::function& molecules) : batch_(batch), molecules_(molecules) {}

  py::object node(const ExampleNode& node) const {
    switch (node.form) {
      case ExampleNode::Form::tensor:
        return tensor(node.leaves.front());
      case ExampleNode::Form::tensors:
        return tensors(node);
      case ExampleNode::Form::jagged:
        return py::make_tuple(tensor(node.leaves[0]), tensor(node.leaves[1]));
      case ExampleNode::Form::texts:
      case ExampleNode::Form::bytes:
        return texts(node);
      case ExampleNode::Form::dict:
        return dict(node);
      case ExampleNode::Form::list:
        return list(node);
      case ExampleNode::Form::molecules:
        return molecules(node);
    }
    throw InternalError("form of a batch out of range");
  }

 private:
  py::object tensor(const std::optional<size_t>& leaf) const {
    return leaf ? py::cast(batch_.tensors[*leaf]) : py::object(py::none());
  }

  py::list tensors(const ExampleNode& node) const {
    py::list all;
    for (const auto& leaf : node.leaves) all.append(tensor(leaf));
    return all;
  }

  static py::object text(const std::string& bytes, bool is_text) {
    const auto size = static_cast<Py_ssize_t>(bytes.size());
    auto made = py::reinterpret_steal<py::object>(is_text ? PyUnicode_DecodeUTF8(bytes.data(), size, "surrogatepass")
                                                          : PyBytes_FromStringAndSize(bytes.data(), size));
    if (!made) throw py::error_already_set();
    return made;
  }

  static py::list texts(const ExampleNode& node) {
    py::list all;
    const bool is_text = node.form == ExampleNode::Form::texts;
    for (const auto& held : node.texts) all.append(held ? text(*held, is_text) : py::object(py::none()));
    return all;
  }

  py::dict dict(const ExampleNode& parent) const {
    py::dict made;
    for (size_t i = 0; i < parent.children.size(); ++i) {
      const ExampleNode& child = parent.children[i];
      const py::object key = text(parent.keys[i], true);
      if (child.form != ExampleNode::Form::jagged) {
        made[key] = node(child);
        continue;
      }
      made[key] = tensor(child.leaves[0]);
      made[text(parent.keys[i] + "_offsets", true)] = tensor(child.leaves[1]);
    }
    return made;
  }

  py::list list(const ExampleNode& parent) const {
    py::list made;
    for (const ExampleNode& child : parent.children) made.append(node(child));
    return made;
  }

  py::object molecules(const ExampleNode& parent) const {
    py::list heads, values;
    for (size_t i = 0; i + 1 < parent.leaves.size(); ++i) values.append(tensor(parent.leaves[i]));
    for (const collate::MoleculeField& field : parent.fields) {
      heads.append(py::make_tuple(field.scope, text(field.key, true), field.per_atom ? "atom" : "molecule"));
    }
    for (const ExampleNode& child : parent.children) values.append(node(child));
    return molecules_(batch_.arena, py::tuple(heads), values, tensor(parent.leaves.back()));
  }

  const ExampleBatch& batch_;
  const py::function& molecules_;
};

// (arena, batch), or None where examples are not alike
py::object hand_over(const std::optional<ExampleBatch>& batch, const py::function& molecules) {
  if (!batch) return py::none();
  return py::make_tuple(batch->arena, Unfolding(*batch, molecules).node(batch->root));
}

Shown shown(const ExampleCollator& collator, const std::optional<at::Tensor>& selection) {
  return Shown(collator.source().size(), selection, "example");
}

py::object collate_examples(const ExampleCollator& self, const py::object& indices,
                            const std::optional<at::Tensor>& selection, bool shared, const py::function& molecules) {
  const std::vector<int64_t> numbers = shown(self, selection).numbers(indices);
  return hand_over(without_gil([&] { return self.collate(numbers, shared ? ArenaKind::shared : ArenaKind::heap); }),
                   molecules);
}

// A batch is absent where examples are not alike: Python makes it of the examples one by one.
using ExamplePrefetcher = collate::Prefetcher<std::optional<ExampleBatch>>;

UniqueHandle<ExamplePrefetcher> make_prefetcher(std::shared_ptr<ExampleCollator> collator, unsigned n_threads,
                                                bool pinned) {
  const ArenaKind kind = pinned ? ArenaKind::pinned : ArenaKind::heap;
  return make_unique_handle<ExamplePrefetcher>(n_threads, [collator = std::move(collator), kind](auto& task) {
    task.batch = collator->collate_serially(task.indices, kind);
  });
}

void ask(ExamplePrefetcher& self, const ExampleCollator& collator, const py::object& indices,
         const std::optional<at::Tensor>& selection) {
  self.push({shown(collator, selection).numbers(indices)});
}

// (indices, what hand_over() gives)
py::tuple take(ExamplePrefetcher& self, const py::function& molecules) {
  const auto task = take_interruptibly(self);
  return py::make_tuple(task.indices, hand_over(task.batch, molecules));
}

}  // namespace

void bind_examples(py::module_& module) {
  module.def("read_example", &read_example, py::arg("reader"), py::arg("example"));
  py::class_<ExampleCollator, std::shared_ptr<ExampleCollator>>(module, "ExampleCollator")
      .def(py::init(&make_collator), py::arg("reader"), py::kw_only(), py::arg("jagged"), py::arg("levels"),
           py::arg("max_threads"))
      .def("collate", &collate_examples, py::arg("indices"), py::arg("selection"), py::arg("shared"),
           py::arg("molecules"))
      .def("levels", unlocked([](const ExampleCollator& self) {
             return std::map<std::string, bool>(self.levels().begin(), self.levels().end());
           }));
  py::class_<ExamplePrefetcher, UniqueHandle<ExamplePrefetcher>>(module, "ExamplePrefetcher")
      .def(py::init(&make_prefetcher), py::arg("collator"), py::arg("n_threads"), py::arg("pinned"))
      .def("ask", &ask, py::arg("collator"), py::arg("indices"), py::arg("selection"))
      .def("take", &take, py::arg("molecules"))
      .def("__len__", &ExamplePrefetcher::size);
}

}  // namespace atompack::bindings
