// Examples of a sharded dataset, for collation.
#pragma once

#include <memory>

#include "formats/atlas_shards/reader.h"
#include "model/example_source.h"

namespace atompack::atlas_shards {

class ShardSource final : public ExampleSource {
 public:
  explicit ShardSource(std::shared_ptr<const Reader> reader) : reader_(std::move(reader)) {}

  int64_t size() const override { return static_cast<int64_t>(reader_->size()); }
  int64_t window() const override { return reader_->window(); }
  void announce(std::span<const int64_t> indices) const override;
  Examples read(std::span<const int64_t> indices) const override;

 private:
  std::shared_ptr<const Reader> reader_;
};

}  // namespace atompack::atlas_shards
