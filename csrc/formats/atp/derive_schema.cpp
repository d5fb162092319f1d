#include "formats/atp/derive_schema.h"

#include <algorithm>

namespace atompack::atp {

class SectionCollector::Visitor final : public MoleculeVisitor {
 public:
  explicit Visitor(SectionCollector& owner) : owner_(owner) {}

  void geometry(const Geometry&) override {}

  void field(const FieldView& view, Bytes) override {
    if (view.fault != nullptr) throw *view.fault;
    if (view.declaration < 0) {
      found_undeclared_ = true;
      return;
    }
    const auto declared = static_cast<size_t>(view.declaration);
    if (owner_.seen_[declared]) return;
    owner_.add(owner_.from_.stored_schema().entries[declared]);
    owner_.seen_[declared] = true;
  }

  bool found_undeclared() const { return found_undeclared_; }

 private:
  SectionCollector& owner_;
  bool found_undeclared_ = false;
};

void SectionCollector::add(const SchemaEntry& entry) {
  try {
    known_.add(entry);
    const bool fits = rules_.format != 2 || from_.header().record_format == 2;
    if (!fits && needs_format_3(entry.scope, entry.tag)) {
      throw FieldError(cat("type: record format 2 cannot store ", words_for(entry.tag), " in this field"));
    }
  } catch (DataError& error) {
    error.at_field(entry.key);
    throw;
  }
}

SectionCollector::SectionCollector(const Reader& from, RecordRules& rules)
    : from_(from), rules_(rules), known_(rules.schema), seen_(from.stored_schema().entries.size()) {
  const DType positions = from.schemas()[0].positions;
  if (rules.positions && *rules.positions != positions) {
    throw FieldError(
        cat("type: expected ", name_of(*rules.positions), " as in earlier molecules, got ", name_of(positions)))
        .at_field("positions");
  }
  rules.positions = positions;
  if (!rules.is_fixed) rules.format = from.header().record_format;
}

void SectionCollector::collect(int64_t index, Bytes record) {
  Visitor visitor(*this);
  from_.visit(index, record, visitor);
  if (!visitor.found_undeclared()) return;
  try {
    collect_undeclared(record);
  } catch (DataError& error) {
    from_.locate(error, index);
    throw;
  }
}

// A visitor does not see tags, and several tags may stand for the same type.
void SectionCollector::collect_undeclared(Bytes record) {
  ByteCursor cursor(record);
  const auto n_atoms = cursor.read_le<uint32_t>("atom count");
  cursor.take(n_atoms * (3 * item_bytes(from_.schemas()[0].positions) + 1), "positions and atomic numbers");
  const auto n_sections = cursor.read_le<uint16_t>("section count");
  for (int i = 0; i < n_sections; ++i) {
    const RawSection section = read_section(cursor);
    if (!is_visible(section)) continue;
    const auto scope = static_cast<Scope>(section.kind);
    const auto same = [&](const SchemaEntry& entry) { return entry.scope == scope && entry.key == section.key; };
    if (std::ranges::any_of(from_.stored_schema().entries, same)) continue;
    const std::optional<FieldType> type = field_type(scope, section.key, section.tag);
    if (!type) throw InternalError("a section that passed its checks has no type");
    const auto shape = row_shape(traits_of(section.tag), type->level, section.payload.size(), n_atoms);
    // the shape of tensors is not needed
    add(entry_for(scope, section.key, section.tag, *type, shape.value_or(Shape{})));
  }
}

void SectionCollector::join() {
  Schema schema = known_.merged_schema();
  for (const RawSchemaEntry& raw : from_.stored_schema().hidden) {
    const auto is_same = [&](const RawSchemaEntry& other) { return other.kind == raw.kind && other.key == raw.key; };
    if (std::ranges::none_of(schema.hidden, is_same)) schema.hidden.push_back(raw);
  }
  rules_.schema = std::move(schema);
}

RecordRules derive_rules(const Reader& reader) {
  RecordRules rules;
  SectionCollector sections(reader, rules);
  std::vector<std::byte> scratch;
  for (int64_t i = 0; i < reader.size(); ++i) {
    if (reader.needs_scratch(i)) scratch.resize(static_cast<size_t>(reader.extent(i).decoded_bytes));
    sections.collect(i, reader.decode(i, scratch));
  }
  sections.join();
  rules.is_fixed = reader.size() > 0;
  return rules;
}

}  // namespace atompack::atp
