#include "plan/type_rules.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace atompack::plan {
namespace {

constexpr uint16_t kNanFloat16 = 0x7e00, kNanBfloat16 = 0x7fc0;

std::string describe(const FieldType& type) {
  if (type.kind == ValueKind::string) return "string";
  if (type.kind == ValueKind::none) return "None";
  return std::string(name_of(type.dtype));
}

// Number of bits of an integer type without its sign bit.
int value_bits(DType dtype) {
  const int bits = static_cast<int>(8 * item_bytes(dtype));
  return dtype >= DType::int8 ? bits - 1 : bits;
}

template <typename T>
void fill_with(std::byte* to, T value, size_t count) {
  std::fill_n(reinterpret_cast<T*>(to), count, value);
}

}  // namespace

std::optional<DType> common_dtype(DType a, DType b) {
  if (a == b) return a;
  if (is_floating(a) && is_floating(b)) return DType::float64;
  const auto fits_int64 = [](DType dtype) { return is_integer(dtype) && dtype != DType::uint64; };
  if (fits_int64(a) && fits_int64(b)) return DType::int64;
  return std::nullopt;
}

std::optional<DType> common_dtype(std::span<const DType> types) {
  if (types.empty()) return std::nullopt;
  std::optional<DType> common = types.front();
  for (const DType type : types.subspan(1)) {
    if (common) common = common_dtype(*common, type);
  }
  return common;
}

std::optional<FieldType> common_type(const FieldType& a, const FieldType& b) {
  if (a == b) return a;
  const bool both_numeric = a.kind == ValueKind::numeric && b.kind == ValueKind::numeric;
  if (!both_numeric || a.level != b.level || a.is_atom_index != b.is_atom_index) return std::nullopt;
  const std::optional<DType> dtype = common_dtype(a.dtype, b.dtype);
  if (!dtype) return std::nullopt;
  FieldType type = a;
  type.dtype = *dtype;
  return type;
}

FieldType widen(const FieldType& a, const FieldType& b) {
  if (const auto both = common_type(a, b)) return *both;
  throw FieldError(cat("types that cannot share a batch: ", describe(a), " and ", describe(b)));
}

DType number_dtype(DType stored) {
  if (is_floating(stored)) return DType::float64;
  return is_integer(stored) && stored != DType::uint64 ? DType::int64 : stored;
}

bool can_cast(DType from, DType to) {
  if (from == to) return true;
  if (is_floating(from)) return is_floating(to);
  return from == DType::int32 && (to == DType::int64 || to == DType::float64);
}

bool can_cast_column(DType from, DType to) {
  if (from == to) return true;
  if (is_floating(to)) return is_floating(from) || is_integer(from);
  if (!is_integer(from) || !is_integer(to)) return false;
  const bool loses_sign = from >= DType::int8 && to < DType::int8;
  return !loses_sign && value_bits(from) <= value_bits(to);
}

bool any_with_rows(std::span<const Observation* const> observed) {
  return std::ranges::any_of(observed, &Observation::has_rows);
}

std::optional<Shape> common_row_shape(std::span<const Observation* const> observed, int64_t n_molecules) {
  const bool need_rows = any_with_rows(observed) || std::ssize(observed) < n_molecules;
  const Observation* first = nullptr;
  for (const Observation* seen : observed) {
    if (need_rows && !seen->has_rows) continue;
    if (first != nullptr && first->row_shape != seen->row_shape) return std::nullopt;
    if (first == nullptr) first = seen;
  }
  return first == nullptr ? std::nullopt : std::optional(first->row_shape);
}

void fill_missing(std::byte* to, DType dtype, size_t count) {
  switch (dtype) {
    case DType::float16:
      return fill_with(to, kNanFloat16, count);
    case DType::bfloat16:
      return fill_with(to, kNanBfloat16, count);
    case DType::float32:
      return fill_with(to, std::numeric_limits<float>::quiet_NaN(), count);
    case DType::complex64:
      return fill_with(to, std::numeric_limits<float>::quiet_NaN(), 2 * count);
    case DType::float64:
      return fill_with(to, std::numeric_limits<double>::quiet_NaN(), count);
    case DType::complex128:
      return fill_with(to, std::numeric_limits<double>::quiet_NaN(), 2 * count);
    default:
      std::memset(to, 0, count * item_bytes(dtype));
  }
}

}  // namespace atompack::plan
