#include "collate/copy.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace atompack::collate {
namespace {

template <typename Out, typename In>
void convert(std::byte* to, const std::byte* from, size_t count) {
  auto* const out = reinterpret_cast<Out*>(to);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<Out>(load_le<In>(from + i * sizeof(In)));
}

#if defined(__x86_64__)  // cloned for AVX2, without which the compiler converts byte by byte
__attribute__((target_clones("avx2", "default")))
#endif
void widen_bytes(int64_t* __restrict out, const uint8_t* __restrict from, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = from[i];
}

template <typename In>
void convert_from(std::byte* to, DType out, const std::byte* from, size_t count) {
  switch (out) {
    case DType::uint8:
      return convert<uint8_t, In>(to, from, count);
    case DType::uint16:
      return convert<uint16_t, In>(to, from, count);
    case DType::uint32:
      return convert<uint32_t, In>(to, from, count);
    case DType::uint64:
      return convert<uint64_t, In>(to, from, count);
    case DType::int8:
      return convert<int8_t, In>(to, from, count);
    case DType::int16:
      return convert<int16_t, In>(to, from, count);
    case DType::int32:
      return convert<int32_t, In>(to, from, count);
    case DType::int64:
      return convert<int64_t, In>(to, from, count);
    case DType::float16:
      return convert<c10::Half, In>(to, from, count);
    case DType::bfloat16:
      return convert<c10::BFloat16, In>(to, from, count);
    case DType::float32:
      return convert<float, In>(to, from, count);
    case DType::float64:
      return convert<double, In>(to, from, count);
    default:
      throw InternalError(cat("no conversion to ", name_of(out)));
  }
}

// Any byte except 0 is true. A bool with a byte other than 0 or 1 would be undefined behavior.
void copy_booleans(std::byte* to, const std::byte* from, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = std::byte{from[i] != std::byte{0}};
}

// Returns the number of indices outside the molecule, whose sums wrap around instead of overflowing.
template <typename In>
size_t shift_atoms(int64_t* out, const std::byte* from, size_t count, const AtomRange& atoms) {
  size_t n_wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto atom = static_cast<uint64_t>(load_le<In>(from + i * sizeof(In)));
    n_wrong += atom >= static_cast<uint64_t>(atoms.n) ? 1 : 0;
    out[i] = static_cast<int64_t>(atom + static_cast<uint64_t>(atoms.first));
  }
  return n_wrong;
}

}  // namespace

void copy_values(std::byte* to, DType out, const std::byte* from, DType in, size_t count) {
  if (count == 0) return;
  if (in == DType::boolean) return copy_booleans(to, from, count);
  if (in == DType::uint8 && out == DType::int64) {
    return widen_bytes(reinterpret_cast<int64_t*>(to), reinterpret_cast<const uint8_t*>(from), count);
  }
  if (in == out) {
    std::memcpy(to, from, count * item_bytes(out));
    return;
  }
  switch (in) {
    case DType::uint8:
      return convert_from<uint8_t>(to, out, from, count);
    case DType::uint16:
      return convert_from<uint16_t>(to, out, from, count);
    case DType::uint32:
      return convert_from<uint32_t>(to, out, from, count);
    case DType::uint64:
      return convert_from<uint64_t>(to, out, from, count);
    case DType::int8:
      return convert_from<int8_t>(to, out, from, count);
    case DType::int16:
      return convert_from<int16_t>(to, out, from, count);
    case DType::int32:
      return convert_from<int32_t>(to, out, from, count);
    case DType::int64:
      return convert_from<int64_t>(to, out, from, count);
    case DType::float16:
      return convert_from<c10::Half>(to, out, from, count);
    case DType::bfloat16:
      return convert_from<c10::BFloat16>(to, out, from, count);
    case DType::float32:
      return convert_from<float>(to, out, from, count);
    case DType::float64:
      return convert_from<double>(to, out, from, count);
    default:
      throw InternalError(cat("no conversion from ", name_of(in)));
  }
}

void copy_atom_indices(std::byte* to, const std::byte* from, DType in, size_t count, const AtomRange& atoms) {
  auto* const out = reinterpret_cast<int64_t*>(to);
  const size_t n_wrong = in == DType::int32 ? shift_atoms<int32_t>(out, from, count, atoms)
                                            : shift_atoms<int64_t>(out, from, count, atoms);
  if (n_wrong == 0) return;
  throw CorruptFileError(
      cat("atom numbers: expected numbers below ", atoms.n, ", got ", n_wrong, " of ", count, " outside"));
}

}  // namespace atompack::collate
