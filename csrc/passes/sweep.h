// Looking at every molecule of a source once: in chunks of fixed borders, on all threads, for a while at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collate/torch_threads.h"
#include "model/molecule_source.h"
#include "plan/molecules/batch_plan.h"

namespace atompack::collate {

// Decodes one record and hands it to the visitor; `scratch` grows as records need it.
void visit_molecule(const MoleculeSource& source, int64_t index, std::vector<std::byte>& scratch,
                    MoleculeVisitor& visitor);

// Not thread-safe: one caller, who may stop between two calls of advance().
class Sweep {
 public:
  // `selection`: the numbers to look at, contiguous int64 and in range; absent: all of the source.
  Sweep(std::shared_ptr<const MoleculeSource> source, std::optional<at::Tensor> selection, int max_threads)
      : source_(std::move(source)), selection_(std::move(selection)), max_threads_(max_threads) {}

  const MoleculeSource& source() const { return *source_; }
  int64_t size() const { return selection_ ? selection_->numel() : source_->size(); }

  // Goes on for about a tenth of a second; returns how many molecules are done. Each chunk becomes a copy of `empty`
  // on which look(part, index, scratch) is called for its molecules in order; join(part) gets the parts in order, so
  // what it makes of them does not depend on the number of threads. Throws the first molecule's error.
  template <typename Part, typename Look, typename Join>
  int64_t advance(const Part& empty, const Look& look, const Join& join) {
    const auto start = std::chrono::steady_clock::now();
    while (done_ < size() && std::chrono::steady_clock::now() - start < std::chrono::milliseconds(100)) {
      next_chunks(empty, look, join);
    }
    return done_;
  }

 private:
  static constexpr int64_t kChunk = 2048;  // molecules: much more work than joining what was made of them
  static constexpr int64_t kChunksAThread = 4;

  // Places `first` to `last`, as numbers in the source.
  std::vector<int64_t> numbers(int64_t first, int64_t last) const;

  template <typename Part, typename Look, typename Join>
  void next_chunks(const Part& empty, const Look& look, const Join& join) {
    const int64_t most_threads = usable_threads(max_threads_);
    const int64_t last = std::min(size(), done_ + kChunk * kChunksAThread * most_threads);
    const std::vector<int64_t> indices = numbers(done_, last);
    source_->prepare(indices);
    const auto n_chunks = static_cast<size_t>((last - done_ + kChunk - 1) / kChunk);
    std::vector<Part> parts(n_chunks, empty);
    std::vector<std::exception_ptr> thrown(n_chunks);
    std::atomic<size_t> taken{0};
    // Chunks differ in work, so each thread takes the next. Whatever is thrown, all chunks before it get done.
    for_each_range(std::min(most_threads, static_cast<int64_t>(n_chunks)), [&](int64_t) {
      std::vector<std::byte> scratch;
      for (size_t chunk = taken++; chunk < n_chunks; chunk = taken++) {
        try {
          const auto first_of_chunk = chunk * kChunk;
          const auto last_of_chunk = std::min(first_of_chunk + kChunk, indices.size());
          for (size_t i = first_of_chunk; i < last_of_chunk; ++i) {
            if (selection_ && i + kPrefetchAhead < indices.size()) source_->prefetch(indices[i + kPrefetchAhead]);
            look(parts[chunk], indices[i], scratch);
          }
        } catch (...) {
          thrown[chunk] = std::current_exception();  // thrown again below, in order
          taken = n_chunks;
        }
      }
    });
    for (size_t chunk = 0; chunk < n_chunks; ++chunk) {
      if (thrown[chunk]) std::rethrow_exception(thrown[chunk]);
      join(std::move(parts[chunk]));
    }
    done_ = last;
  }

  std::shared_ptr<const MoleculeSource> source_;
  std::optional<at::Tensor> selection_;
  int max_threads_;
  int64_t done_ = 0;
};

}  // namespace atompack::collate
