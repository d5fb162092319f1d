#include "collate/fill/example_fill.h"

#include <cstring>

#include "collate/arena/arena.h"
#include "collate/fill/copy.h"
#include "collate/torch_threads.h"
#include "plan/type_rules.h"

namespace atompack::collate {
namespace {

template <typename T>
void put_number(std::byte* to, DType out, DType in, T value) {
  std::array<std::byte, sizeof(T)> bytes;
  store_le(bytes.data(), value);
  copy_values(to, out, bytes.data(), in, 1);
}

void put_array(std::byte* to, DType out, size_t length, const Array& array) {
  const DType in = *atompack::dtype_of(array.type);
  if (in == out) return copy_out(array, {to, length});
  std::vector<std::byte> stored(array.bytes());
  copy_out(array, stored);
  copy_values(to, out, stored.data(), in, array.size());
}

void put(std::byte* to, DType out, const Leaf::Part& part) {
  switch (part.value.kind()) {
    case Kind::boolean:
      return put_number(to, out, DType::boolean, part.value.boolean());
    case Kind::integer:
      return put_number(to, out, DType::int64, part.value.integer());
    case Kind::real:
      return put_number(to, out, DType::float64, part.value.real());
    default:
      return put_array(to, out, part.length, part.value.array());
  }
}

struct Task {
  const Leaf* leaf;
  const Leaf::Part* part;
};

std::vector<Task> tasks_of(const ExamplePlan& plan) {
  std::vector<Task> tasks;
  for (const Leaf& leaf : plan.leaves) {
    for (const Leaf::Part& part : leaf.parts) tasks.push_back({&leaf, &part});
  }
  return tasks;
}

// Where each range of about as many bytes begins, and the end.
std::vector<size_t> cut(const std::vector<Task>& tasks, int64_t n_ranges) {
  uint64_t total = 0, sum = 0;
  for (const Task& task : tasks) total += task.part->length;
  std::vector<size_t> begins{0};
  for (size_t i = 0; i < tasks.size(); ++i) {
    sum += tasks[i].part->length;
    const auto n_full = static_cast<int64_t>(begins.size());
    if (n_full < n_ranges && sum >= total / static_cast<uint64_t>(n_ranges) * static_cast<uint64_t>(n_full)) {
      begins.push_back(i + 1);
    }
  }
  begins.push_back(tasks.size());
  return begins;
}

}  // namespace

void fill_examples(const ExamplePlan& plan, const at::Tensor& arena, int64_t n_threads) {
  auto* const memory = static_cast<std::byte*>(arena.mutable_data_ptr());
  for (const Leaf& leaf : plan.leaves) {
    std::byte* const to = memory + leaf.offset;
    if (leaf.has_gaps && leaf.gaps_are_zero) {
      std::memset(to, 0, leaf.bytes());
    } else if (leaf.has_gaps) {
      fill_missing(to, leaf.dtype, leaf.bytes() / item_bytes(leaf.dtype));
    }
    store(to, leaf.content);
  }
  const std::vector<Task> tasks = tasks_of(plan);
  const std::vector<size_t> begins = cut(tasks, n_threads);
  for_each_range(std::ssize(begins) - 1, [&](int64_t range) {
    for (size_t i = begins[static_cast<size_t>(range)]; i < begins[static_cast<size_t>(range) + 1]; ++i) {
      put(memory + tasks[i].leaf->offset + tasks[i].part->at, tasks[i].leaf->dtype, *tasks[i].part);
    }
  });
}

std::vector<at::Tensor> wrap_examples(const ExamplePlan& plan, const at::Tensor& arena) {
  std::vector<at::Tensor> views;
  views.reserve(plan.leaves.size());
  for (const Leaf& leaf : plan.leaves) views.push_back(view_arena(arena, leaf.dtype, leaf.offset, leaf.shape));
  return views;
}

}  // namespace atompack::collate
