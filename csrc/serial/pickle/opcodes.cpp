#include "serial/pickle/opcodes.h"

#include <algorithm>
#include <array>

namespace atompack::pickle {
namespace {

struct NamedOpcode {
  uint8_t opcode;
  std::string_view name;
};

// Python's names of the opcodes that are refused or can be misplaced.
constexpr std::array kNames = {
    NamedOpcode{0x80, "PROTO"},
    NamedOpcode{0x81, "NEWOBJ"},
    NamedOpcode{0x82, "EXT1"},
    NamedOpcode{0x83, "EXT2"},
    NamedOpcode{0x84, "EXT4"},
    NamedOpcode{0x8F, "EMPTY_SET"},
    NamedOpcode{0x90, "ADDITEMS"},
    NamedOpcode{0x91, "FROZENSET"},
    NamedOpcode{0x92, "NEWOBJ_EX"},
    NamedOpcode{0x97, "NEXT_BUFFER"},
    NamedOpcode{0x98, "READONLY_BUFFER"},
    NamedOpcode{'0', "POP"},
    NamedOpcode{'1', "POP_MARK"},
    NamedOpcode{'2', "DUP"},
    NamedOpcode{'F', "FLOAT"},
    NamedOpcode{'I', "INT"},
    NamedOpcode{'L', "LONG"},
    NamedOpcode{'P', "PERSID"},
    NamedOpcode{'Q', "BINPERSID"},
    NamedOpcode{'S', "STRING"},
    NamedOpcode{'T', "BINSTRING"},
    NamedOpcode{'U', "SHORT_BINSTRING"},
    NamedOpcode{'V', "UNICODE"},
    NamedOpcode{'d', "DICT"},
    NamedOpcode{'g', "GET"},
    NamedOpcode{'i', "INST"},
    NamedOpcode{'l', "LIST"},
    NamedOpcode{'o', "OBJ"},
    NamedOpcode{'p', "PUT"},
};

const NamedOpcode* find(uint8_t opcode) {
  const auto found = std::ranges::find(kNames, opcode, &NamedOpcode::opcode);
  return found == kNames.end() ? nullptr : found;
}

}  // namespace

std::string name_of_opcode(uint8_t opcode) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text = {'0', 'x', kDigits[opcode >> 4], kDigits[opcode & 15]};
  if (const NamedOpcode* const found = find(opcode)) text.append(" ").append(found->name);
  return text;
}

bool is_opcode_of_python(uint8_t opcode) { return find(opcode) != nullptr; }

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
