// Batcher of the variables of many datasets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "collate/batcher.h"
#include "model/column_source.h"
#include "plan/column_plan.h"
#include "plan/request.h"

namespace atompack::collate {

struct ScanOptions {
  plan::Layout layout = plan::Layout::stacked;
  std::optional<DType> dtype;  // target dtype of numbers; nullopt: the stored one
  int max_threads = 0;         // 0: the number that torch uses
  plan::Missing missing = plan::Missing::nan;
};

// Reads variables of any datasets of a source; all columns of a batch share one arena.
class ColumnBatcher final : public Batcher {
 public:
  ColumnBatcher(std::shared_ptr<const ColumnSource> source, std::vector<uint32_t> variables, SliceRequest request,
                ScanOptions options);

  const ColumnSource& source() const { return *source_; }

  int64_t size() const override { return source_->size(); }
  std::string_view item() const override { return "dataset"; }

  int64_t window() const override;
  void announce(std::span<const int64_t> datasets) const override;

  // Announces the slices that it makes anyway.
  AnyBatch make(std::vector<int64_t> datasets, ArenaKind kind, Parallelism parallelism) const override {
    return read(std::move(datasets), kind, parallelism, false);
  }
  // Throws FieldError if rows differ in shape or type and the layout does not allow that, if values cannot be cast
  // without loss of range, or if a variable is missing and `missing` is error; also the errors of the slices.
  AnyBatch make_announced(std::vector<int64_t> datasets, ArenaKind kind, Parallelism parallelism) const override {
    return read(std::move(datasets), kind, parallelism, true);
  }

 private:
  using Slices = std::vector<std::unique_ptr<ColumnSlice>>;

  AnyBatch read(std::vector<int64_t> datasets, ArenaKind kind, Parallelism parallelism, bool is_announced) const;
  Slices make_slices(std::span<const int64_t> datasets) const;
  // Returns the datasets that have all variables. Throws FieldError for any other if `missing` is error.
  std::vector<int64_t> complete_datasets(std::span<const int64_t> datasets, const Slices& slices) const;

  std::shared_ptr<const ColumnSource> source_;
  std::vector<uint32_t> variables_;
  SliceRequest request_;
  ScanOptions options_;
};

// Copies an array into a tensor of its own.
at::Tensor copy_of(const HeldArray& array);

}  // namespace atompack::collate
