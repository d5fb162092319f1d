#include "model/sources/concat.h"

#include <algorithm>

namespace atompack {
namespace {

bool same(const FieldDeclaration& a, const FieldDeclaration& b) {
  return a.scope == b.scope && a.key == b.key && a.type == b.type && a.row_shape == b.row_shape;
}

bool same(const MoleculeSchema& a, const MoleculeSchema& b) {
  return a.positions == b.positions &&
         std::ranges::equal(a.fields, b.fields, [](const auto& x, const auto& y) { return same(x, y); });
}

}  // namespace

ConcatSource::ConcatSource(std::vector<std::shared_ptr<const MoleculeSource>> parts)
    : parts_(std::move(parts)), starts_{0} {
  for (const auto& part : parts_) {
    window_ = std::max(window_.load(), part->window());
    starts_.push_back(starts_.back() + part->size());
    auto& numbers = schema_number_.emplace_back();
    for (const MoleculeSchema& schema : part->schemas()) numbers.push_back(number_of(schema));
  }
}

int32_t ConcatSource::number_of(const MoleculeSchema& schema) {
  const auto known = std::ranges::find_if(schemas_, [&](const auto& other) { return same(schema, other); });
  if (known == schemas_.end()) {
    schemas_.push_back(schema);
    return static_cast<int32_t>(schemas_.size()) - 1;
  }
  return static_cast<int32_t>(known - schemas_.begin());
}

ConcatSource::Place ConcatSource::place(int64_t index) const {
  // The last start <= index; empty parts share a start and are skipped.
  const auto after = std::ranges::upper_bound(starts_, index);
  const auto part = static_cast<size_t>(after - starts_.begin()) - 1;
  return {part, index - starts_[part]};
}

int32_t ConcatSource::schema_of(int64_t index) const {
  const auto [part, local] = place(index);
  return schema_number_[part][static_cast<size_t>(parts_[part]->schema_of(local))];
}

// Calls use(part, indices in it) for each part with any of the indices.
template <typename Use>
void ConcatSource::for_each_part(std::span<const int64_t> indices, const Use& use) const {
  std::vector<std::vector<int64_t>> wanted(parts_.size());
  for (const int64_t index : indices) {
    const auto [part, local] = place(index);
    wanted[part].push_back(local);
  }
  int64_t window = 0;
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (wanted[part].empty()) continue;
    use(*parts_[part], wanted[part]);
    window = std::max(window, parts_[part]->window());
  }
  if (!indices.empty()) window_ = window;
}

void ConcatSource::prepare(std::span<const int64_t> indices) const {
  for_each_part(indices, [](const MoleculeSource& part, std::span<const int64_t> local) { part.prepare(local); });
}

void ConcatSource::announce(std::span<const int64_t> indices) const {
  for_each_part(indices, [](const MoleculeSource& part, std::span<const int64_t> local) { part.announce(local); });
}

MoleculeExtent ConcatSource::extent(int64_t index) const {
  const auto [part, local] = place(index);
  return parts_[part]->extent(local);
}

void ConcatSource::prefetch(int64_t index) const {
  const auto [part, local] = place(index);
  parts_[part]->prefetch(local);
}

bool ConcatSource::needs_scratch(int64_t index) const {
  const auto [part, local] = place(index);
  return parts_[part]->needs_scratch(local);
}

Bytes ConcatSource::decode(int64_t index, std::span<std::byte> scratch) const {
  const auto [part, local] = place(index);
  return parts_[part]->decode(local, scratch);
}

void ConcatSource::visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const {
  const auto [part, local] = place(index);
  parts_[part]->visit(local, record, visitor);
}

void ConcatSource::locate(DataError& error, int64_t index) const {
  const auto [part, local] = place(index);
  parts_[part]->locate(error, local);
}

constexpr std::string_view kKey = "source";
constexpr FieldType kType{Level::molecule, ValueKind::numeric, DType::int64};

MixtureSource::MixtureSource(const std::vector<std::shared_ptr<const MoleculeSource>>& parts)
    : ForwardingSource(std::make_shared<const ConcatSource>(parts)) {
  for (const auto& part : parts) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + part->size());
  // At the end, so that the other declarations keep their numbers.
  for (MoleculeSchema schema : source().schemas()) {
    schema.fields.push_back({Scope::builtin, std::string(kKey), kType, Shape{}});
    schemas_.push_back(std::move(schema));
  }
}

void MixtureSource::visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const {
  source().visit(index, record, visitor);
  const int64_t part = std::ranges::upper_bound(ends_, index) - ends_.begin();
  const auto& fields = schemas_[static_cast<size_t>(source().schema_of(index))].fields;
  const auto declaration = static_cast<int32_t>(std::ssize(fields)) - 1;
  visitor.field({Scope::builtin, kKey, kType, Shape{}, declaration}, std::as_bytes(std::span(&part, 1)));
}

}  // namespace atompack
