#include "formats/atp/type_tag.h"

#include <algorithm>
#include <array>

#include "model/fields.h"

namespace atompack::atp {
namespace {

constexpr std::array<TagTraits, kTagCount> kTraits{{
    {Form::scalar, DType::float64, 8},    //  0
    {Form::scalar, DType::int64, 8},      //  1
    {Form::text, DType::uint8, 0},        //  2
    {Form::array, DType::float64, 8},     //  3
    {Form::vectors, DType::float32, 12},  //  4
    {Form::array, DType::int64, 8},       //  5
    {Form::array, DType::float32, 4},     //  6
    {Form::vectors, DType::float64, 24},  //  7
    {Form::array, DType::int32, 4},       //  8
    {Form::flags, DType::boolean, 3},     //  9
    {Form::matrix, DType::float64, 72},   // 10
    {Form::scalar, DType::float32, 4},    // 11
    {Form::matrix, DType::float32, 36},   // 12
    {Form::none, DType::uint8, 0},        // 13
    {Form::tensor, DType::float32, 4},    // 14
    {Form::tensor, DType::float64, 8},    // 15
    {Form::tensor, DType::int32, 4},      // 16
    {Form::tensor, DType::int64, 8},      // 17
}};

// Form in which a builtin field is stored.
constexpr Form form_of(const BuiltinField& field) {
  if (field.kind == ValueKind::string) return Form::text;
  if (field.dtype == DType::boolean) return Form::flags;
  if (field.row.rank == 2) return Form::matrix;
  if (field.level == Level::molecule) return Form::scalar;
  return field.row.rank == 0 ? Form::array : Form::vectors;
}

// True if a builtin field may be stored with this tag: floats in both widths.
constexpr bool is_legal_for(const BuiltinField& field, const TagTraits& traits) {
  return traits.form == form_of(field) && (traits.dtype == field.dtype || is_floating(field.dtype)) &&
         is_floating(traits.dtype) == is_floating(field.dtype);
}

FieldType typed(Level level, const TagTraits& traits) {
  const ValueKind kind = traits.form == Form::text   ? ValueKind::string
                         : traits.form == Form::none ? ValueKind::none
                                                     : ValueKind::numeric;
  return {level, kind, traits.dtype};
}

bool legal_for_property(Scope scope, Form form) {
  switch (form) {
    case Form::array:
    case Form::vectors:
    case Form::tensor:
      return true;
    case Form::scalar:
    case Form::text:
    case Form::none:
      return scope == Scope::molecule_property;
    case Form::flags:
    case Form::matrix:
      return false;
  }
  return false;
}

}  // namespace

const TagTraits& traits_of(uint8_t tag) { return kTraits[tag]; }

bool is_builtin(std::string_view key) { return find_builtin(key) != nullptr; }

std::optional<FieldType> field_type(Scope scope, std::string_view key, uint8_t tag) {
  if (tag >= kTagCount) return std::nullopt;
  if (scope == Scope::builtin) {
    const BuiltinField* builtin = find_builtin(key);
    if (builtin == nullptr || !is_legal_for(*builtin, kTraits[tag])) return std::nullopt;
    return typed(builtin->level, kTraits[tag]);
  }
  constexpr uint8_t kFloat32Scalar = 11;  // of the energy only
  if (tag == kFloat32Scalar || !legal_for_property(scope, kTraits[tag].form)) return std::nullopt;
  return typed(scope == Scope::atom_property ? Level::atom : Level::molecule, kTraits[tag]);
}

namespace {

Form property_form(const FieldType& type, const Shape& row_shape) {
  if (type.kind == ValueKind::none) return Form::none;
  if (type.kind == ValueKind::string) return Form::text;
  const int rank = row_shape.rank() + (type.level == Level::atom ? 1 : 0);
  const bool threes = rank == 2 && row_shape.dims().back() == 3 && is_floating(type.dtype);
  return rank == 0 ? Form::scalar : rank == 1 ? Form::array : threes ? Form::vectors : Form::tensor;
}

// The first tag of this form and element type.
std::optional<uint8_t> property_tag(Form form, DType dtype) {
  const auto found = std::ranges::find_if(
      kTraits, [&](const TagTraits& traits) { return traits.form == form && traits.dtype == dtype; });
  if (found == kTraits.end()) return std::nullopt;
  return static_cast<uint8_t>(found - kTraits.begin());
}

std::optional<uint8_t> builtin_tag(std::string_view key, const FieldType& type, const Shape& row_shape) {
  const BuiltinField* const builtin = find_builtin(key);
  if (builtin == nullptr) return std::nullopt;
  for (uint8_t tag = 0; tag < kTagCount; ++tag) {
    const TagTraits& traits = kTraits[tag];
    if (!is_legal_for(*builtin, traits) || typed(builtin->level, traits) != type) continue;
    if (atp::row_shape(traits, builtin->level, traits.element_bytes, 1) == row_shape) return tag;
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint8_t> tag_for(Scope scope, std::string_view key, const FieldType& type, const Shape& row_shape) {
  if (scope == Scope::builtin) return builtin_tag(key, type, row_shape);
  const std::optional<uint8_t> tag = property_tag(property_form(type, row_shape), type.dtype);
  return tag && field_type(scope, key, *tag) ? tag : std::nullopt;
}

std::string words_for(uint8_t tag) {
  const TagTraits& traits = kTraits[tag];
  switch (traits.form) {
    case Form::scalar:
      return cat(name_of(traits.dtype), " number");
    case Form::text:
      return "text";
    case Form::array:
      return cat(name_of(traits.dtype), " array");
    case Form::vectors:
      return cat(name_of(traits.dtype), " array of (k, 3)");
    case Form::flags:
      return "three bools";
    case Form::matrix:
      return cat(name_of(traits.dtype), " array of (3, 3)");
    case Form::none:
      return "None";
    case Form::tensor:
      return cat(name_of(traits.dtype), " tensor");
  }
  return "?";
}

bool needs_format_3(Scope scope, uint8_t tag) {
  constexpr std::array<uint8_t, 4> kOtherWidths{6, 7, 11, 12};
  return scope == Scope::builtin && std::ranges::find(kOtherWidths, tag) != kOtherWidths.end();
}

std::optional<Shape> row_shape(const TagTraits& traits, Level level, uint64_t payload_bytes, uint64_t n_atoms) {
  switch (traits.form) {
    case Form::text:
      return Shape{};
    case Form::scalar:
    case Form::none:
      return payload_bytes == traits.element_bytes ? std::optional(Shape{}) : std::nullopt;
    case Form::flags:
      return payload_bytes == traits.element_bytes ? std::optional(Shape{3}) : std::nullopt;
    case Form::matrix:
      return payload_bytes == traits.element_bytes ? std::optional(Shape{3, 3}) : std::nullopt;
    case Form::array:
    case Form::vectors: {
      const bool vectors = traits.form == Form::vectors;
      if (payload_bytes % traits.element_bytes != 0) return std::nullopt;
      const uint64_t k = payload_bytes / traits.element_bytes;
      if (level == Level::molecule) return vectors ? Shape{static_cast<int64_t>(k), 3} : Shape{static_cast<int64_t>(k)};
      if (k != n_atoms) return std::nullopt;
      return vectors ? Shape{3} : Shape{};
    }
    case Form::tensor:
      break;  // read from the payload, not from its length
  }
  return std::nullopt;
}

}  // namespace atompack::atp
