#include "serial/pickle/globals.h"

#include <algorithm>
#include <array>

namespace atompack::pickle {
namespace {

struct KnownGlobal {
  std::string_view module, name;
  Global global;
};

// NumPy 2 writes numpy._core, NumPy 1 numpy.core; protocol 2 writes __builtin__.
constexpr std::array kKnown = {
    KnownGlobal{"numpy._core.multiarray", "_reconstruct", Global::reconstruct},
    KnownGlobal{"numpy.core.multiarray", "_reconstruct", Global::reconstruct},
    KnownGlobal{"numpy", "ndarray", Global::ndarray},
    KnownGlobal{"numpy", "dtype", Global::dtype},
    KnownGlobal{"numpy._core.numeric", "_frombuffer", Global::from_buffer},
    KnownGlobal{"numpy.core.numeric", "_frombuffer", Global::from_buffer},
    KnownGlobal{"numpy._core.multiarray", "scalar", Global::scalar},
    KnownGlobal{"numpy.core.multiarray", "scalar", Global::scalar},
    KnownGlobal{"_codecs", "encode", Global::encode},
    KnownGlobal{"__builtin__", "bytes", Global::bytes},
    KnownGlobal{"builtins", "bytes", Global::bytes},
    KnownGlobal{"torch._utils", "_rebuild_tensor_v2", Global::rebuild_tensor},
    KnownGlobal{"torch.storage", "_load_from_bytes", Global::load_from_bytes},
    KnownGlobal{"collections", "OrderedDict", Global::ordered_dict},
};

constexpr ElementType element(ElementKind kind, uint32_t item_bytes) {
  return {.kind = kind, .sealed = true, .item_bytes = item_bytes};
}

constexpr std::array kStorageClasses = {
    StorageClass{"FloatStorage", element(ElementKind::floating, 4)},
    StorageClass{"DoubleStorage", element(ElementKind::floating, 8)},
    StorageClass{"HalfStorage", element(ElementKind::floating, 2)},
    StorageClass{"BFloat16Storage", element(ElementKind::bfloat16, 2)},
    StorageClass{"LongStorage", element(ElementKind::signed_integer, 8)},
    StorageClass{"IntStorage", element(ElementKind::signed_integer, 4)},
    StorageClass{"ShortStorage", element(ElementKind::signed_integer, 2)},
    StorageClass{"CharStorage", element(ElementKind::signed_integer, 1)},
    StorageClass{"ByteStorage", element(ElementKind::unsigned_integer, 1)},
    StorageClass{"BoolStorage", element(ElementKind::boolean, 1)},
    StorageClass{"ComplexFloatStorage", element(ElementKind::complex, 8)},
    StorageClass{"ComplexDoubleStorage", element(ElementKind::complex, 16)},
};

template <typename List, typename Predicate>
std::optional<uint32_t> position(const List& list, Predicate predicate) {
  const auto found = std::ranges::find_if(list, predicate);
  if (found == list.end()) return std::nullopt;
  return static_cast<uint32_t>(found - list.begin());
}

}  // namespace

std::optional<Meaning> find_global(std::string_view module, std::string_view name,
                                   std::span<const RecordClass> classes) {
  const auto same = [&](const auto& known) { return known.name == name && known.module == module; };
  if (const auto known = position(kKnown, same)) return Meaning{kKnown[*known].global};
  if (const auto record = position(classes, same)) return Meaning{Global::record, *record};
  return std::nullopt;
}

std::optional<Meaning> find_storage_class(std::string_view module, std::string_view name) {
  if (module != "torch") return std::nullopt;
  const auto found = position(kStorageClasses, [&](const StorageClass& known) { return known.name == name; });
  if (!found) return std::nullopt;
  return Meaning{Global::storage, *found};
}

const StorageClass& storage_class(uint32_t number) { return kStorageClasses[number]; }

std::optional<uint32_t> storage_class_of(const ElementType& wanted) {
  return position(kStorageClasses, [&](const StorageClass& known) {
    return known.element.kind == wanted.kind && known.element.item_bytes == wanted.item_bytes;
  });
}

}  // namespace atompack::pickle
