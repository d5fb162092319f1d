#include "collate/example_batcher.h"

#include <algorithm>
#include <utility>

#include "collate/fill.h"
#include "collate/torch_threads.h"

namespace atompack::collate {
namespace {

// Size of a batch below which a second thread costs more than it saves.
constexpr size_t kMinParallelBytes = size_t{1} << 20;

// Sample of the source from which levels are inferred.
constexpr int64_t kFirstExamples = 32, kSpacedExamples = 16;

std::vector<int64_t> sample_indices(int64_t size) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < std::min(size, kFirstExamples); ++i) numbers.push_back(i);
  for (int64_t i = 0; i < kSpacedExamples && size > kFirstExamples; ++i)
    numbers.push_back(i * (size / kSpacedExamples));
  return numbers;
}

}  // namespace

ExampleBatcher::ExampleBatcher(std::shared_ptr<const ExampleSource> source, ExampleOptions options)
    : source_(std::move(source)), options_(std::move(options)) {}

ExampleBatcher::~ExampleBatcher() { delete levels_.load(); }

const KeyLevels& ExampleBatcher::levels() const {
  if (const KeyLevels* const known = levels_) return *known;
  auto learned = std::make_unique<KeyLevels>();
  const std::vector<int64_t> sample = sample_indices(source_->size());
  if (source_->window() > 0) source_->announce(sample);
  const Examples examples = source_->read(sample);
  learn_levels(examples.values, *learned);
  for (const auto& [key, per_atom] : options_.levels) learned->insert_or_assign(key, per_atom);
  const KeyLevels* none = nullptr;
  return levels_.compare_exchange_strong(none, learned.get()) ? *learned.release() : *none;
}

AnyBatch ExampleBatcher::make_announced(std::vector<int64_t> indices, ArenaKind kind, Parallelism parallelism) const {
  Examples examples = source_->read(indices);
  const bool molecules = !examples.values.empty() && has_molecules(examples.values.front());
  std::optional<plan::ExamplePlan> plan =
      plan::plan_examples(examples.values, indices, molecules ? levels() : options_.levels, options_.jagged);
  if (!plan) return IncompatibleExamples{std::move(examples), std::move(indices)};
  ExampleBatch batch{.arena = allocate_arena(plan->arena.size(), kind), .root = {}, .tensors = {}, .molecules = {}};
  const bool large = parallelism == Parallelism::automatic && plan->arena.size() >= kMinParallelBytes;
  threads::run_adaptively(adaptive_, static_cast<int64_t>(plan->arena.size()),
                          large ? usable_threads(options_.max_threads) : 1, [&](int64_t n_threads) {
                            fill_examples(*plan, batch.arena, n_threads);
                            for (plan::MoleculesPlan& molecules : plan->molecules) {
                              batch.molecules.push_back(fill_molecules(molecules, batch.arena, n_threads));
                            }
                          });
  batch.tensors = wrap_examples(*plan, batch.arena);
  batch.root = std::move(plan->root);
  return batch;
}

}  // namespace atompack::collate
