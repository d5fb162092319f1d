#include "atp/derive_schema.h"

#include <algorithm>

namespace atompack::atp {

class SectionCollector::Visitor final : public MoleculeVisitor {
 public:
  explicit Visitor(SectionCollector& owner) : owner_(owner) {}

  void geometry(const Geometry&) override {}

  void field(const FieldView& view, Bytes) override {
    if (view.fault != nullptr) throw *view.fault;
    const Schema& schema = owner_.from_.stored_schema();
    if (view.declaration >= 0) {
      const auto declared = static_cast<size_t>(view.declaration);
      if (owner_.seen_[declared]) return;
      add(schema.entries[declared]);
      owner_.seen_[declared] = true;
      return;
    }
    const std::optional<uint8_t> tag = tag_for(view.scope, view.key, view.type, view.row_shape);
    if (!tag) throw FieldError("type: the format has none for this value").at_field(std::string(view.key));
    add(entry_for(view.scope, view.key, *tag, view.type, view.row_shape));
  }

 private:
  void add(const SchemaEntry& entry) {
    try {
      owner_.known_.add(entry);
      const bool fits = owner_.rules_.format != 2 || owner_.from_.header().record_format == 2;
      if (!fits && needs_format_3(entry.scope, entry.tag)) {
        throw FieldError(cat("type: records of format 2 hold no ", words_for(entry.tag), " here"));
      }
    } catch (DataError& error) {
      error.at_field(entry.key);
      throw;
    }
  }

  SectionCollector& owner_;
};

SectionCollector::SectionCollector(const Reader& from, RecordRules& rules)
    : from_(from), rules_(rules), known_(rules.schema), seen_(from.stored_schema().entries.size()) {
  const DType positions = from.schemas()[0].positions;
  if (rules.positions && *rules.positions != positions) {
    throw FieldError(
        cat("type: expected ", name_of(*rules.positions), " as in the molecules before, got ", name_of(positions)))
        .at_field("positions");
  }
  rules.positions = positions;
  if (!rules.settled) rules.format = from.header().record_format;
}

void SectionCollector::collect(int64_t index, Bytes record) {
  Visitor visitor(*this);
  from_.visit(index, record, visitor);
}

void SectionCollector::join() {
  Schema joined = known_.joined();
  for (const RawSchemaEntry& raw : from_.stored_schema().unshown) {
    const auto is_same = [&](const RawSchemaEntry& other) { return other.kind == raw.kind && other.key == raw.key; };
    if (std::ranges::none_of(joined.unshown, is_same)) joined.unshown.push_back(raw);
  }
  rules_.schema = std::move(joined);
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
  rules.settled = reader.size() > 0;
  return rules;
}

}  // namespace atompack::atp
