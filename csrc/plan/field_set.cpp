#include "plan/field_set.h"

#include "model/fields.h"

namespace atompack::plan {
namespace {

FieldType widen_field(const FieldType& a, const FieldType& b, const FieldId& id) {
  return at_field(id.key, [&] { return widen(a, b); });
}

// Plans one tensor if there is a common row shape, otherwise one per molecule. `widest`: dtype to which values are
// widened.
FieldPlan make_plan(const FieldId& id, const FieldType& type, DType widest, const std::optional<Shape>& row_shape,
                    std::span<const Observation* const> observed, int64_t n_molecules, const Request& request) {
  FieldPlan plan;
  plan.type = type;
  plan.stored = type.dtype;
  plan.absent_is_zero = is_geometry(id.scope, id.key);
  if (type.kind == ValueKind::numeric) plan.type.dtype = request.output_dtype(id, widest);
  if (type.is_atom_index) plan.type.dtype = DType::int64;
  plan.ragged = type.kind == ValueKind::numeric && !row_shape;
  if (row_shape) plan.row_shape = *row_shape;
  plan.row_elements = plan.row_shape.numel();
  if (!plan.ragged) return plan;
  plan.rows.resize(static_cast<size_t>(n_molecules));
  for (const Observation* seen : observed) plan.rows[static_cast<size_t>(seen->molecule)] = {true, seen->row_shape, 0};
  return plan;
}

}  // namespace

FieldSet::FieldSet(std::span<const MoleculeSchema> schemas, const Request& request) : request_(request) {
  auto table = std::make_shared<FieldTable>();
  table_ = table;
  const auto number_of = [&](const FieldDeclaration& declaration) {
    const FieldId id{declaration.scope, declaration.key};
    const int32_t number = table->add({id, declaration.type.level, declaration.type.kind});
    declared_.resize(table->fields().size());
    return number;
  };
  for (size_t schema = 0; schema < schemas.size(); ++schema) {
    auto& slots = slots_.emplace_back();
    for (const FieldDeclaration& declaration : schemas[schema].fields) {
      slots.push_back(kSkip);
      if (!request.selects({declaration.scope, declaration.key})) continue;
      slots.back() = number_of(declaration);
      declared_[static_cast<size_t>(slots.back())].push_back(
          {static_cast<int32_t>(schema), declaration.type, declaration.row_shape});
    }
  }
  if (!request.fields) return;
  for (const BuiltinField& label : kBuiltinFields) {
    const FieldId id{Scope::builtin, std::string(label.key)};
    if (!request.fields->contains(id) || !request.selects(id)) continue;
    const FieldType type{label.level, label.kind, label.dtype};
    auto& declared = declared_[static_cast<size_t>(number_of({id.scope, id.key, type, {}}))];
    if (declared.empty()) declared.push_back({kSkip, type, Shape(label.row.dims())});
  }
}

std::vector<const FieldSet::Declared*> FieldSet::declarations(size_t field, std::span<const int32_t> touched) const {
  std::vector<const Declared*> all, of_touched;
  for (const Declared& declared : declared_[field]) {
    all.push_back(&declared);
    if (std::ranges::find(touched, declared.schema) != touched.end()) of_touched.push_back(&declared);
  }
  return of_touched.empty() ? all : of_touched;
}

bool FieldSet::is_determined_by(int32_t schema) const {
  const auto is_determined = [&](const Declared& declared) { return declared.schema != schema || declared.row_shape; };
  return std::ranges::all_of(declared_,
                             [&](const auto& of_field) { return std::ranges::all_of(of_field, is_determined); });
}

// Returns the widest type of a field over all files, except those in which the key has a type that does not mix.
FieldType FieldSet::widest(size_t field, const FieldType& touched) const {
  FieldType type = touched;
  for (const Declared& declared : declared_[field]) {
    const bool is_default = declared.schema == kSkip;  // no stored value has this type
    if (!is_default) type = common_type(type, declared.type).value_or(type);
  }
  return type;
}

FieldPlan FieldSet::resolve(size_t field, std::span<const int32_t> touched,
                            std::span<const Observation* const> observed, int64_t n_molecules) const {
  const FieldId& id = table_->fields()[field].id;
  const std::vector<const Declared*> declared = declarations(field, touched);
  FieldType type = declared.front()->type;
  for (const Declared* other : declared) type = widen_field(type, other->type, id);
  for (const Observation* seen : observed) type = widen_field(type, seen->type, id);

  std::optional<Shape> shape = declared.front()->row_shape;
  for (const Declared* other : declared) {
    if (other->row_shape != shape) shape = std::nullopt;
  }
  if (!declared.front()->row_shape || any_with_rows(observed)) shape = common_row_shape(observed, n_molecules);

  FieldPlan plan = make_plan(id, type, widest(field, type).dtype, shape, observed, n_molecules, request_);
  plan.must_be_present = request_.missing == Missing::error && !plan.absent_is_zero;
  return plan;
}

std::vector<OutputField> output_fields(std::span<const MoleculeSchema> schemas, const Request& request) {
  FieldTable numbers;
  std::vector<OutputField> fields;
  for (const MoleculeSchema& schema : schemas) {
    for (const FieldDeclaration& declared : schema.fields) {
      FieldId id{declared.scope, declared.key};
      const auto number = static_cast<size_t>(numbers.add({id, declared.type.level, declared.type.kind}));
      if (number == fields.size()) {
        fields.push_back({std::move(id), declared.type, declared.row_shape});
        continue;
      }
      OutputField& field = fields[number];
      field.type = common_type(field.type, declared.type).value_or(field.type);
      if (field.row_shape != declared.row_shape) field.row_shape = std::nullopt;
    }
  }
  for (OutputField& field : fields) {
    if (field.type.kind != ValueKind::numeric) continue;
    const DType stored = field.type.is_atom_index ? DType::int64 : field.type.dtype;
    field.type.dtype = request.wanted_dtype(field.id, stored);
  }
  return fields;
}

FieldPlan resolve_unlisted(const FieldEntry& entry, std::span<const Observation* const> observed, int64_t n_molecules,
                           const Request& request) {
  if (observed.empty()) {  // all its values are damaged
    const FieldType none{entry.level, ValueKind::none, {}};
    return make_plan(entry.id, none, none.dtype, std::nullopt, observed, n_molecules, request);
  }
  FieldType type = observed.front()->type;
  for (const Observation* seen : observed) type = widen_field(type, seen->type, entry.id);
  return make_plan(entry.id, type, type.dtype, common_row_shape(observed, n_molecules), observed, n_molecules, request);
}

DType resolve_positions(std::span<const MoleculeSchema> schemas, const Request& request) {
  std::optional<DType> stored;
  for (const MoleculeSchema& schema : schemas) {
    stored = stored ? common_dtype(*stored, schema.positions) : schema.positions;
  }
  return request.output_dtype({Scope::builtin, "positions"}, stored.value_or(DType::float32));
}

}  // namespace atompack::plan
