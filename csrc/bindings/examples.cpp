#include "bindings/examples.h"

#include <pybind11/stl.h>

#include "bindings/collate.h"
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
using collate::CollatedExamples;
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
  // `molecules` makes a batch of what hand_over() returns.
  Unfolding(ExampleBatch& batch, const py::function& molecules) : batch_(batch), molecules_(molecules) {}

  py::object node(const ExampleNode& node) {
    switch (node.form) {
      case ExampleNode::Form::tensor:
        return tensor(node.leaves.front());
      case ExampleNode::Form::tensors:
        return list(node.leaves, [&](size_t leaf) { return tensor(leaf); });
      case ExampleNode::Form::jagged:
        return py::make_tuple(tensor(node.leaves[0]), tensor(node.leaves[1]));
      case ExampleNode::Form::texts:
        return list(node.texts, to_str);
      case ExampleNode::Form::bytes:
        return list(node.texts, [](const std::string& bytes) { return py::bytes(bytes); });
      case ExampleNode::Form::dict:
        return dict(node);
      case ExampleNode::Form::list:
        return list(node.children, [&](const ExampleNode& child) { return this->node(child); });
      case ExampleNode::Form::molecules:
        return molecules_(*hand_over(std::move(batch_.molecules[node.molecules])));
    }
    throw InternalError("form of a batch out of range");
  }

 private:
  py::object tensor(size_t leaf) const { return py::cast(batch_.tensors[leaf]); }

  template <typename Items, typename Make>
  static py::list list(const Items& items, const Make& make) {
    py::list made;
    for (const auto& item : items) made.append(make(item));
    return made;
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
  const py::function& molecules_;
};

// (arena, batch, None); where examples are not alike, (None, [example], numbers)
py::tuple hand_over_examples(const std::vector<int64_t>& numbers, CollatedExamples collated,
                             const py::function& molecules) {
  if (auto* const batch = std::get_if<ExampleBatch>(&collated)) {
    return py::make_tuple(batch->arena, Unfolding(*batch, molecules).node(batch->root), py::none());
  }
  py::list examples;
  for (const Value& value : std::get<Examples>(collated).values) examples.append(to_python(value));
  return py::make_tuple(py::none(), examples, numbers);
}

Shown shown(const ExampleCollator& collator, const std::optional<at::Tensor>& selection) {
  return Shown(collator.source().size(), selection, "example");
}

py::tuple collate_examples(const ExampleCollator& self, const py::object& indices,
                           const std::optional<at::Tensor>& selection, bool shared, const py::function& molecules) {
  const std::vector<int64_t> numbers = shown(self, selection).numbers(indices);
  CollatedExamples collated =
      without_gil([&] { return self.collate(numbers, shared ? ArenaKind::shared : ArenaKind::heap); });
  return hand_over_examples(numbers, std::move(collated), molecules);
}

using ExamplePrefetcher = collate::Prefetcher<CollatedExamples>;

UniqueHandle<ExamplePrefetcher> make_prefetcher(std::shared_ptr<ExampleCollator> collator, unsigned n_threads,
                                                bool pinned) {
  const ArenaKind kind = pinned ? ArenaKind::pinned : ArenaKind::heap;
  return make_unique_handle<ExamplePrefetcher>(n_threads, [collator = std::move(collator), kind](auto& task) {
    task.batch = collator->collate(task.indices, kind, true);
  });
}

void ask(ExamplePrefetcher& self, const ExampleCollator& collator, const py::object& indices,
         const std::optional<at::Tensor>& selection) {
  self.push({shown(collator, selection).numbers(indices)});
}

py::tuple take(ExamplePrefetcher& self, const py::function& molecules) {
  auto task = take_interruptibly(self);
  return hand_over_examples(std::move(task.indices), std::move(task.batch), molecules);
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
