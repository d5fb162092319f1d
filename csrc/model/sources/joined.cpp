#include "model/sources/joined.h"

#include "base/doubles.h"

namespace atompack {
namespace {

// Forwards fields with their declarations renumbered for the joined schema.
class FieldForwarder final : public MoleculeVisitor {
 public:
  FieldForwarder(MoleculeVisitor& visitor, int32_t n_before) : visitor_(visitor), n_before_(n_before) {}

  void geometry(const Geometry&) override {}
  void field(const FieldView& field, Bytes data) override {
    FieldView joined = field;
    if (field.declaration >= 0) joined.declaration += n_before_;
    visitor_.field(joined, data);
  }

 private:
  MoleculeVisitor& visitor_;
  int32_t n_before_;
};

// Forwards a molecule and keeps what it is recognized by.
class LikenessKeeper final : public MoleculeVisitor {
 public:
  explicit LikenessKeeper(MoleculeVisitor& visitor) : visitor_(visitor) {}

  void geometry(const Geometry& geometry) override {
    likeness_.geometry = geometry;
    visitor_.geometry(geometry);
  }
  void field(const FieldView& field, Bytes data) override {
    if (field.scope == Scope::builtin && field.fault == nullptr) keep(field, data);
    visitor_.field(field, data);
  }

  const Likeness& likeness() const { return likeness_; }

 private:
  void keep(const FieldView& field, Bytes data) {
    if (field.key == "energy") {
      load_doubles(&likeness_.energy.emplace(), data.data(), field.type.dtype, 1);
    } else if (field.key == "cell") {
      load_doubles(likeness_.cell.emplace().data(), data.data(), field.type.dtype, 9);
    }
  }

  MoleculeVisitor& visitor_;
  Likeness likeness_;
};

}  // namespace

JoinedSource::JoinedSource(std::shared_ptr<const MoleculeSource> molecules, std::shared_ptr<const MoleculeSource> extra)
    : molecules_(std::move(molecules)),
      extra_(std::move(extra)),
      entries_(dynamic_cast<const EntrySource*>(extra_.get())),
      is_checked_(static_cast<size_t>(molecules_->size())) {
  if (molecules_->size() != extra_->size()) {
    throw FieldError(
        cat("cache: expected an entry for each of ", molecules_->size(), " molecules, got ", extra_->size()));
  }
  for (const MoleculeSchema& schema : molecules_->schemas()) {
    for (const MoleculeSchema& other : extra_->schemas()) {
      MoleculeSchema& joined = schemas_.emplace_back(schema);
      joined.fields.insert(joined.fields.end(), other.fields.begin(), other.fields.end());
    }
  }
}

int32_t JoinedSource::schema_of(int64_t index) const {
  const auto n_extra = static_cast<int32_t>(extra_->schemas().size());
  return molecules_->schema_of(index) * n_extra + extra_->schema_of(index);
}

void JoinedSource::prepare(std::span<const int64_t> indices) const {
  molecules_->prepare(indices);
  extra_->prepare(indices);
}

MoleculeExtent JoinedSource::extent(int64_t index) const {
  MoleculeExtent extent = molecules_->extent(index);
  const MoleculeExtent more = extra_->extent(index);
  if (extent.n_atoms != more.n_atoms) {
    located(index, [&] {
      throw FieldError(cat("cache: expected an entry of ", extent.n_atoms, " atoms, got ", more.n_atoms));
    });
  }
  extent.decoded_bytes += more.decoded_bytes;
  extent.work += more.work;
  extent.n_edges += more.n_edges;
  extent.n_triplets += more.n_triplets;
  return extent;
}

void JoinedSource::prefetch(int64_t index) const {
  molecules_->prefetch(index);
  extra_->prefetch(index);
}

Bytes JoinedSource::decode(int64_t index, std::span<std::byte> scratch) const {
  if (!needs_scratch(index)) return molecules_->decode(index, {});
  // extent() includes the extra fields.
  return molecules_->decode(index, scratch.first(static_cast<size_t>(molecules_->extent(index).decoded_bytes)));
}

void JoinedSource::visit_and_check(int64_t index, Bytes record, MoleculeVisitor& visitor) const {
  LikenessKeeper keeper(visitor);
  molecules_->visit(index, record, keeper);
  located(index, [&] { entries_->check_likeness(index, keeper.likeness()); });
  is_checked_[static_cast<size_t>(index)].store(true, std::memory_order_relaxed);
}

void JoinedSource::visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const {
  if (entries_ == nullptr || is_checked_[static_cast<size_t>(index)].load(std::memory_order_relaxed)) {
    molecules_->visit(index, record, visitor);
  } else {
    visit_and_check(index, record, visitor);
  }
  const auto& schema = molecules_->schemas()[static_cast<size_t>(molecules_->schema_of(index))];
  FieldForwarder fields(visitor, static_cast<int32_t>(schema.fields.size()));
  extra_->visit(index, {}, fields);
}

}  // namespace atompack
