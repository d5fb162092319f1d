// A cache file as a source of molecules: whole entries, or only their features and derivatives.
#pragma once

#include <memory>
#include <vector>

#include "formats/torch_cache/reader.h"
#include "model/sources/joined.h"

namespace atompack::torch_cache {

// whole: includes positions, species and labels from the stored structures. rows: for a JoinedSource, whose other
// source has the molecules.
enum class EntryParts : uint8_t { whole, rows };

class CacheSource final : public EntrySource {
 public:
  CacheSource(std::shared_ptr<const Cache> cache, EntryParts parts);

  int64_t size() const override { return cache_->n_entries(); }
  std::span<const MoleculeSchema> schemas() const override { return {&schema_, 1}; }
  int32_t schema_of(int64_t) const override { return 0; }
  void prepare(std::span<const int64_t>) const override { cache_->prepare(); }
  MoleculeExtent extent(int64_t entry) const override;
  void prefetch(int64_t entry) const override { cache_->prefetch(entry); }
  bool needs_scratch(int64_t) const override { return false; }
  Bytes decode(int64_t, std::span<std::byte>) const override { return {}; }  // rows are scattered: visit() locates them
  void visit(int64_t entry, Bytes record, MoleculeVisitor& visitor) const override;
  void check_likeness(int64_t entry, const Likeness& likeness) const override;
  void locate(DataError& error, int64_t entry) const override { error.at_molecule(entry).in_file(cache_->path()); }

 private:
  struct CachedColumn {
    Column column;
    int32_t declaration;
  };
  int32_t declare(std::string_view key, const FieldType& type, const Shape& row_shape);
  void declare_features();
  void declare_derivatives();
  void visit_structure(int64_t entry, MoleculeVisitor& visitor) const;
  void visit_label(int32_t declaration, Bytes data, MoleculeVisitor& visitor) const;

  std::shared_ptr<const Cache> cache_;
  EntryParts parts_;
  MoleculeSchema schema_;
  int32_t features_ = -1;
  std::vector<CachedColumn> derivatives_;
};

}  // namespace atompack::torch_cache
