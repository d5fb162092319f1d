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

// Calls `use` with a zero of the C++ type of these numbers.
template <typename Use>
void with_number_of(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::uint8:
      return use(uint8_t{});
    case DType::uint16:
      return use(uint16_t{});
    case DType::uint32:
      return use(uint32_t{});
    case DType::uint64:
      return use(uint64_t{});
    case DType::int8:
      return use(int8_t{});
    case DType::int16:
      return use(int16_t{});
    case DType::int32:
      return use(int32_t{});
    case DType::int64:
      return use(int64_t{});
    case DType::float16:
      return use(c10::Half{});
    case DType::bfloat16:
      return use(c10::BFloat16{});
    case DType::float32:
      return use(float{});
    case DType::float64:
      return use(double{});
    default:
      throw InternalError(cat("no conversion of ", name_of(dtype)));
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
  with_number_of(
      in, [&]<typename In>(In) { with_number_of(out, [&]<typename Out>(Out) { convert<Out, In>(to, from, count); }); });
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
