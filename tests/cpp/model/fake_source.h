// A source without files, for the tests of those that stand on others.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/molecule_source.h"

namespace atompack {

// Molecules that know only their part and number; what is asked of the part is written down.
class FakeSource final : public MoleculeSource {
 public:
  FakeSource(int64_t size, std::vector<MoleculeSchema> schemas) : size_(size), schemas_(std::move(schemas)) {}

  int64_t size() const override { return size_; }
  std::span<const MoleculeSchema> schemas() const override { return schemas_; }
  int32_t schema_of(int64_t index) const override { return static_cast<int32_t>(index % std::ssize(schemas_)); }
  void prepare(std::span<const int64_t> indices) const override {
    prepared.emplace_back(indices.begin(), indices.end());
  }
  MoleculeExtent extent(int64_t index) const override { return {index, 100 + size_, 0}; }
  void prefetch(int64_t index) const override { prefetched.push_back(index); }
  bool needs_scratch(int64_t index) const override { return index == 0; }
  Bytes decode(int64_t index, std::span<std::byte> scratch) const override {
    scratch[0] = static_cast<std::byte>(index);
    return scratch.first(1);
  }
  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const override {
    visitor.geometry({index, DType::float32, record, {}});
  }
  void locate(DataError& error, int64_t index) const override { error.at_molecule(index).in_file(cat("of ", size_)); }

  mutable std::vector<std::vector<int64_t>> prepared;
  mutable std::vector<int64_t> prefetched;

 private:
  int64_t size_;
  std::vector<MoleculeSchema> schemas_;
};

inline MoleculeSchema schema_with(const std::string& key, DType positions = DType::float32,
                                  std::optional<Shape> shape = Shape{}) {
  return {positions, {{Scope::molecule_property, key, {}, shape}}};
}

inline std::shared_ptr<FakeSource> part(int64_t size, std::vector<MoleculeSchema> schemas = {schema_with("a")}) {
  return std::make_shared<FakeSource>(size, std::move(schemas));
}

}  // namespace atompack
