#include "collate/fill/example_fill.h"

#include <algorithm>

#include "collate/arena/arena.h"
#include "collate/fill/fill.h"
#include "collate/torch_threads.h"

namespace atompack::collate {
namespace {

void write_part(std::byte* to, const Leaf::Part& part) {
  switch (part.value.kind()) {
    case Kind::boolean:
      *to = std::byte{part.value.boolean()};
      return;
    case Kind::integer:
      store_le(to, part.value.integer());
      return;
    case Kind::real:
      store_le(to, part.value.real());
      return;
    default:
      return copy_out(part.value.array(), {to, part.length});
  }
}

struct Task {
  const Leaf* leaf;
  const Leaf::Part* part;
};

std::vector<Task> list_tasks(const ExamplePlan& plan) {
  std::vector<Task> tasks;
  for (const Leaf& leaf : plan.leaves) {
    for (const Leaf::Part& part : leaf.parts) tasks.push_back({&leaf, &part});
  }
  return tasks;
}

// Splits tasks into ranges of about equal numbers of bytes; returns their borders.
std::vector<size_t> split_by_bytes(const std::vector<Task>& tasks, int64_t n_ranges) {
  uint64_t total = 0, sum = 0;
  for (const Task& task : tasks) total += task.part->length;
  std::vector<size_t> borders{0};
  for (size_t i = 0; i < tasks.size(); ++i) {
    sum += tasks[i].part->length;
    const auto n_full = static_cast<int64_t>(borders.size());
    if (n_full < n_ranges && sum >= total / static_cast<uint64_t>(n_ranges) * static_cast<uint64_t>(n_full)) {
      borders.push_back(i + 1);
    }
  }
  borders.push_back(tasks.size());
  return borders;
}

}  // namespace

void fill_examples(const ExamplePlan& plan, const at::Tensor& arena, int64_t n_threads) {
  auto* const memory = static_cast<std::byte*>(arena.mutable_data_ptr());
  for (const Leaf& leaf : plan.leaves) {
    store(memory + leaf.offset, leaf.content);
  }
  const std::vector<Task> tasks = list_tasks(plan);
  const std::vector<size_t> borders = split_by_bytes(tasks, n_threads);
  for_each_range(std::ssize(borders) - 1, [&](int64_t range) {
    for (size_t i = borders[static_cast<size_t>(range)]; i < borders[static_cast<size_t>(range) + 1]; ++i) {
      write_part(memory + tasks[i].leaf->offset + tasks[i].part->offset, *tasks[i].part);
    }
  });
}

Batch fill_molecules(MoleculesPlan& plan, const at::Tensor& arena, int64_t n_threads) {
  plan.batch.max_ranges = n_threads;
  FillOptions options{.surveyed = true};
  if (plan.source->is_uniform()) options = {.schema = 0};
  Batch batch = fill_batch(*plan.source, *plan.fields, plan.batch, options, nullptr, arena);
  std::ranges::copy(plan.numbers, batch.index.mutable_data_ptr<int64_t>());
  return batch;
}

std::vector<at::Tensor> wrap_examples(const ExamplePlan& plan, const at::Tensor& arena) {
  std::vector<at::Tensor> views;
  views.reserve(plan.leaves.size());
  for (const Leaf& leaf : plan.leaves) views.push_back(view_arena(arena, leaf.dtype, leaf.offset, leaf.shape));
  return views;
}

}  // namespace atompack::collate
