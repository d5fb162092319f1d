#include "formats/array_file/write/definition.h"

#include <algorithm>
#include <limits>

#include "base/excerpt.h"
#include "base/utf8.h"
#include "formats/array_file/layer/number_type.h"

namespace atompack::array_file {
namespace {

template <typename T>
void check_range(const OwnedFill& fill) {
  const auto fits = [](const auto& value) {
    using V = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<V, int64_t> || std::is_same_v<V, uint64_t>) return std::in_range<T>(value);
    return true;
  };
  if (!std::visit(fits, fill)) {
    throw FieldError(cat("fill value: expected ", +std::numeric_limits<T>::min(), " to ",
                         +std::numeric_limits<T>::max(), ", got another"));
  }
}

template <typename Kind>
void check_kind(const OwnedFill& fill, Type type) {
  if (std::holds_alternative<Kind>(fill)) return;
  throw FieldError(cat("fill value: expected ", name_of(type), ", got another type"));
}

void check_fill(const OwnedFill& fill, Type type) {
  if (type == Type::timestamp) return check_kind<Timestamp>(fill, type);
  if (type == Type::string) return check_kind<std::string>(fill, type);
  with_number_of(type, [&]<typename T>(T) {
    if constexpr (std::is_integral_v<T>) {
      check_kind<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(fill, type);
      check_range<T>(fill);
    } else if constexpr (std::is_floating_point_v<T>) {
      check_kind<double>(fill, type);
    } else {
      throw FieldError(cat("fill value: expected none for ", name_of(type), ", got one"));
    }
  });
}

// Integers as the type stores them.
OwnedFill typed(const OwnedFill& fill, Type type) {
  const auto* const number = std::get_if<int64_t>(&fill);
  if (number == nullptr) return fill;
  if (type == Type::timestamp) return Timestamp{*number};
  const bool is_unsigned = type >= Type::uint8 && type <= Type::uint64;
  return is_unsigned && *number >= 0 ? OwnedFill(static_cast<uint64_t>(*number)) : fill;
}

void check_string(std::string_view text, std::string_view what) {
  if (!is_utf8(as_bytes(text))) throw FieldError(cat(what, ": expected UTF-8, got other bytes"));
}

void check_axes(const ArrayDefinition& definition) {
  if (definition.shape.size() > kMaxAxes) {
    throw FieldError(cat("axes: expected at most ", kMaxAxes, ", got ", definition.shape.size()));
  }
  if (definition.chunk_shape.size() != definition.shape.size()) {
    throw FieldError(
        cat("chunk shape: expected ", definition.shape.size(), " axes, got ", definition.chunk_shape.size()));
  }
  constexpr uint64_t kMax = std::numeric_limits<uint32_t>::max();
  for (size_t i = 0; i < definition.shape.size(); ++i) {
    const uint64_t extent = definition.shape[i], chunk = definition.chunk_shape[i];
    if (extent > kMax) throw FieldError(cat("axis ", i, ": expected at most ", kMax, ", got ", extent));
    // An axis without elements may have chunks without elements.
    if (chunk > kMax || (chunk == 0 && extent > 0)) {
      throw FieldError(cat("chunk shape of axis ", i, ": expected 1 to ", kMax, ", got ", chunk));
    }
  }
}

// Checks that the array can be read again.
void check_size(const ArrayDefinition& definition) {
  Array array;
  array.type = definition.type;
  array.shape = definition.shape;
  try {
    check_extent(array);
  } catch (const CorruptFileError& error) {
    throw FieldError(error.what());
  }
}

}  // namespace

bool holds_strings(Type type) { return type == Type::string || type == Type::binary; }

std::optional<OwnedFill> to_owned(const std::optional<Fill>& fill) {
  if (!fill) return std::nullopt;
  const auto own = []<typename T>(const T& value) -> OwnedFill {
    if constexpr (std::is_same_v<T, std::string_view>)
      return std::string(value);
    else
      return value;
  };
  return std::visit(own, *fill);
}

std::optional<Fill> view(const std::optional<OwnedFill>& fill) {
  if (!fill) return std::nullopt;
  return std::visit([](const auto& value) -> Fill { return value; }, *fill);
}

void check_can_be_rewritten(const Array& array) {
  if (array.type == Type::list || array.type == Type::fixed_list) {
    throw UnsupportedFormatError(cat("array: expected a type that can be rewritten, got ", name_of(array.type)));
  }
}

void check_attribute(std::string_view key, const AttributeValue& value) {
  check_string(key, "attribute key");
  const auto* const text = std::get_if<std::string_view>(&value);
  if (text != nullptr) return check_string(*text, "attribute");
  if (value.index() < static_cast<size_t>(Type::string)) return;
  throw FieldError(cat("attribute ", excerpt(key), ": expected a bool, a number or a string, got another type"));
}

ArrayDefinition definition_of(const Array& array) {
  return {.name = array.name,
          .type = array.type,
          .shape = array.shape,
          .dimension_names = array.dimension_names,
          .chunk_shape = array.chunk_shape,
          .fill = to_owned(array.fill)};
}

ArrayDefinition definition_of(const Array& array, const Layers& layers) {
  ArrayDefinition definition = definition_of(array);
  for (const StoredChunk& chunk : array.chunks) {
    const auto codec = layers.layer(chunk.layer).codec_of(chunk.chunk.block);
    if (codec && std::ranges::find(definition.codecs, *codec) == definition.codecs.end()) {
      definition.codecs.emplace_back(*codec);
    }
  }
  return definition;
}

ArrayDefinition with_defaults(ArrayDefinition definition) {
  if (item_bytes(definition.type) == 0 ? !holds_strings(definition.type) : definition.type == Type::boolean) {
    throw FieldError(cat("type: expected numbers, timestamps, strings or binary, got ", name_of(definition.type)));
  }
  if (definition.chunk_shape.empty()) definition.chunk_shape = definition.shape;
  check_string(definition.name, "name");
  check_axes(definition);
  check_size(definition);
  if (definition.fill) {
    definition.fill = typed(*definition.fill, definition.type);
    check_fill(*definition.fill, definition.type);
  }
  if (const auto* const text = definition.fill ? std::get_if<std::string>(&*definition.fill) : nullptr) {
    check_string(*text, "fill value");
  }
  if (definition.dimension_names.size() != definition.shape.size()) {
    definition.dimension_names.clear();
    for (size_t i = 0; i < definition.shape.size(); ++i) definition.dimension_names.push_back(cat("dim", i));
  }
  for (const std::string& name : definition.dimension_names) check_string(name, "dimension name");
  return definition;
}

bool holds_items(Type type, char kind, uint64_t bytes) {
  const bool is_number = type >= Type::int8 && type <= Type::float64;
  if (!is_number && type != Type::timestamp) return false;
  return kind == (is_number ? name_of(type).front() : 'i') && bytes == item_bytes(type);
}

}  // namespace atompack::array_file
