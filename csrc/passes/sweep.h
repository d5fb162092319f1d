// Pass over every molecule of a source: in chunks of fixed size, on all threads, in time slices.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/molecule_source.h"
#include "plan/batch_plan.h"
#include "threads/parallel_for_each.h"

namespace atompack::passes {

// Decodes one record and passes it to the visitor; `scratch` grows as needed.
void visit_molecule(const MoleculeSource& source, int64_t index, std::vector<std::byte>& scratch,
                    MoleculeVisitor& visitor);

// Indices of molecules, in range, and the owner of their memory.
struct Selection {
  std::span<const int64_t> numbers;
  std::shared_ptr<const void> owner;
};

// Not thread-safe. The caller may stop between two calls of advance().
class Sweep {
 public:
  // `selection`: the molecules to visit; nullopt: all of the source.
  Sweep(std::shared_ptr<const MoleculeSource> source, std::optional<Selection> selection, int n_threads)
      : source_(std::move(source)),
        selection_(std::move(selection)),
        n_threads_(static_cast<size_t>(std::max(n_threads, 1))) {}

  const MoleculeSource& source() const { return *source_; }
  int64_t size() const { return selection_ ? std::ssize(selection_->numbers) : source_->size(); }

  // Runs for about a tenth of a second; returns the number of molecules processed so far. Each chunk starts from a copy
  // of `empty`, on which look(part, index, scratch) is called for its molecules in order; join(part) receives the parts
  // in order, so the result does not depend on the number of threads. Throws the first molecule's error.
  template <typename Part, typename Look, typename Join>
  int64_t advance(const Part& empty, const Look& look, const Join& join) {
    const auto start = std::chrono::steady_clock::now();
    while (done_ < size() && std::chrono::steady_clock::now() - start < std::chrono::milliseconds(100)) {
      next_chunks(empty, look, join);
    }
    return done_;
  }

 private:
  static constexpr int64_t kChunk = 2048;  // molecules: much more work than joining the parts
  static constexpr int64_t kChunksAThread = 4;

  // Positions `first` to `last` of the selection as indices in the source.
  std::vector<int64_t> numbers(int64_t first, int64_t last) const;

  template <typename Part, typename Look, typename Join>
  void next_chunks(const Part& empty, const Look& look, const Join& join) {
    const int64_t last = std::min(size(), done_ + kChunk * kChunksAThread * static_cast<int64_t>(n_threads_));
    const std::vector<int64_t> indices = numbers(done_, last);
    source_->prepare(indices);
    const auto n_chunks = static_cast<size_t>((last - done_ + kChunk - 1) / kChunk);
    std::vector<Part> parts(n_chunks, empty);
    std::vector<std::exception_ptr> thrown(n_chunks);
    // All chunks are processed even after invalid data, so that the first molecule's error is known.
    threads::parallel_for_each(n_chunks, static_cast<unsigned>(n_threads_), [&](size_t chunk) {
      std::vector<std::byte> scratch;
      try {
        const auto first_of_chunk = chunk * kChunk;
        const auto last_of_chunk = std::min(first_of_chunk + kChunk, indices.size());
        for (size_t i = first_of_chunk; i < last_of_chunk; ++i) {
          if (selection_ && i + plan::kPrefetchDistance < indices.size())
            source_->prefetch(indices[i + plan::kPrefetchDistance]);
          look(parts[chunk], indices[i], scratch);
        }
      } catch (const DataError&) {
        thrown[chunk] = std::current_exception();  // rethrown below, in order
      }
    });
    for (size_t chunk = 0; chunk < n_chunks; ++chunk) {
      if (thrown[chunk]) std::rethrow_exception(thrown[chunk]);
      join(std::move(parts[chunk]));
    }
    done_ = last;
  }

  std::shared_ptr<const MoleculeSource> source_;
  std::optional<Selection> selection_;
  size_t n_threads_;
  int64_t done_ = 0;
};

}  // namespace atompack::passes
