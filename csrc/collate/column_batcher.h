// ColumnBatcher: batches of the variables of many data sets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "collate/batcher.h"
#include "model/column_source.h"
#include "plan/columns/column_plan.h"

namespace atompack::collate {

struct ScanOptions {
  Layout layout = Layout::stacked;
  std::optional<DType> dtype;  // target dtype of numbers
  int max_threads = 0;         // 0: torch's number
};

// Scans variables of a source for any of its data sets; all columns of a batch lie in one arena.
class ColumnBatcher final : public Batcher {
 public:
  ColumnBatcher(std::shared_ptr<const ColumnSource> source, std::vector<uint32_t> variables, SliceRequest request,
                ScanOptions options);

  const ColumnSource& source() const { return *source_; }

  int64_t size() const override { return source_->size(); }
  std::string_view item() const override { return "dataset"; }

  // Throws FieldError where rows differ in shape or type and the layout does not allow that, or values cannot be cast
  // without loss of range; the errors of the slices.
  AnyBatch make(std::vector<int64_t> datasets, ArenaKind kind, Parallelism parallelism) const override;

 private:
  std::shared_ptr<const ColumnSource> source_;
  std::vector<uint32_t> variables_;
  SliceRequest request_;
  ScanOptions options_;
};

}  // namespace atompack::collate
