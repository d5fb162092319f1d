#include "serial/pickle/torch_calls.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/excerpt.h"
#include "serial/pickle/calls.h"
#include "serial/pickle/interpreter.h"
#include "serial/pickle/numpy_calls.h"
#include "serial/pickle/opcodes.h"

namespace atompack::pickle {
namespace {

// torch's magic number, 0x1950A86A20F9469CFC6C, as LONG1.
constexpr unsigned char kMagicPickle[] = {0x8A, 10, 0x6C, 0xFC, 0x9C, 0x46, 0xF9, 0x20, 0x6A, 0xA8, 0x50, 0x19};
constexpr std::string_view kKey = "0";  // torch uses the storage's address, which has no meaning to readers

class Stream : public OpcodeStream<Stream> {
 public:
  Stream& start() { return op(Op::proto).put(uint8_t{2}); }
  Stream& stop() { return op(Op::stop); }
  Stream& text(std::string_view text) {
    return op(Op::bin_unicode).put(static_cast<uint32_t>(text.size())).put(as_bytes(text));
  }
  Stream& integer(uint16_t value) { return op(Op::bin_int2).put(value); }
  std::span<std::byte> grow(size_t n) {
    bytes_.resize(bytes_.size() + n);
    return std::span(bytes_).last(n);
  }
};

void put_system(Stream& stream) {
  stream.start().op(Op::empty_dict).op(Op::mark);
  stream.text("protocol_version").integer(kStreamProtocol);
  stream.text("little_endian").op(Op::new_true);
  stream.text("type_sizes").op(Op::empty_dict).op(Op::mark);
  stream.text("short").integer(2).text("int").integer(4).text("long").integer(4);
  stream.op(Op::set_items).op(Op::set_items).stop();
}

void put_description(Stream& stream, std::string_view class_name, int64_t size) {
  stream.start().op(Op::mark).text("storage");
  stream.op(Op::global).put(as_bytes("torch\n")).put(as_bytes(class_name)).put('\n');
  stream.text(kKey).text("cpu").long_integer(size).op(Op::none);
  stream.op(Op::tuple).op(Op::bin_persid).stop();
}

}  // namespace

std::vector<std::byte> encode_storage(const Array& array) {
  const auto number = storage_class_of(array.type);
  if (!number) {
    throw UnsupportedFormatError(cat("pickle: torch has no storage of ", type_text(array.table, array.type)));
  }
  const auto size = static_cast<int64_t>(array.size());
  Stream stream;
  stream.start().put(std::as_bytes(std::span(kMagicPickle))).stop();
  stream.start().integer(kStreamProtocol).stop();
  put_system(stream);
  put_description(stream, storage_class(*number).name, size);
  stream.start().op(Op::empty_list).text(kKey).op(Op::append).stop();
  stream.put(size);
  copy_out(array, stream.grow(array.bytes()));
  return stream.take();
}

namespace {

constexpr unsigned char kMagic[] = {0x6C, 0xFC, 0x9C, 0x46, 0xF9, 0x20, 0x6A, 0xA8, 0x50, 0x19};

void expect_magic(const Cell& cell) {
  const bool is_magic =
      cell.kind() == Kind::big_integer && cell.size == sizeof(kMagic) && same_bytes(cell.data, kMagic, sizeof(kMagic));
  if (!is_magic) corrupt("torch storage: expected the magic number of torch's save stream, got ", describe(cell));
}

void expect_protocol(const Cell& cell) {
  expect_kind(cell, Kind::integer, "protocol of a torch storage");
  if (cell.integer != kStreamProtocol) {
    throw UnsupportedFormatError(
        cat("pickle: torch storage: expected protocol ", kStreamProtocol, ", got ", cell.integer));
  }
}

void expect_little_endian(const State& state, const Cell& cell) {
  expect_kind(cell, Kind::dict, "torch storage");
  const Value system(state.tree, cell);
  const auto little = system.find("little_endian");
  if (!little || little->kind() != Kind::boolean) corrupt("torch storage: expected the key 'little_endian', got none");
  if (!little->boolean())
    throw UnsupportedFormatError("pickle: torch storage: expected little-endian data, got big-endian");
}

// Offsets of errors inside the block count from its start, otherwise from the start of the blob.
void place(DataError& error, const State& state, Bytes blob) {
  const std::less_equal<const std::byte*> before;
  const bool is_inside =
      before(state.block.data(), blob.data()) && before(blob.data(), state.block.data() + state.block.size());
  if (is_inside) {
    error.shift_offset(static_cast<uint64_t>(blob.data() - state.block.data()));
  } else {
    error.shift_offset(0, " of a torch storage");
  }
}

Cell read_stream(State& state, Interpreter& stream, ByteCursor& cursor) {
  expect_magic(stream.run(cursor));
  expect_protocol(stream.run(cursor));
  expect_little_endian(state, stream.run(cursor));
  const Cell cell = stream.run(cursor);
  if (cell.kind() != kStorage) corrupt("torch storage: expected its description, got ", describe(cell));
  expect_kind(stream.run(cursor), Kind::list, "keys of torch storages");
  Storage& storage = state.storages[cell.node];
  const auto count = cursor.read_le<uint64_t>("pickle: size of a torch storage");
  if (count != storage.count) corrupt("torch storage: expected ", storage.count, " elements, got ", count);
  const uint64_t bytes = checked_mul(count, state.tree.types[storage.type].item_bytes, "pickle: torch storage");
  if (bytes != cursor.remaining()) corrupt("torch storage: expected ", bytes, " bytes, got ", cursor.remaining());
  storage.data = cursor.take(bytes, "pickle: torch storage");
  return cell;
}

// The number of elements up to the last one that a view of this shape contains.
uint64_t reach(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  uint64_t last = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 0) return 0;
    const uint64_t steps = checked_mul(static_cast<uint64_t>(shape[axis] - 1), static_cast<uint64_t>(strides[axis]),
                                       "pickle: extent of a tensor");
    last = checked_add(last, steps, "pickle: extent of a tensor");
  }
  return checked_add(last, 1, "pickle: extent of a tensor");
}

void expect_no_metadata(const State& state, std::span<const Cell> arguments) {
  if (arguments[5].kind() != kOrderedDict) unsafe("tensor: expected no hooks, got ", describe(arguments[5]));
  if (arguments.size() < 7) return;
  const bool is_empty = arguments[6].kind() == Kind::dict && state.items(arguments[6]).empty();
  if (!is_empty) unsafe("tensor: expected no metadata, got ", describe(arguments[6]));
}

}  // namespace

Cell torch_storage(State& state, const Cell& persistent_id) {
  expect_kind(persistent_id, Kind::tuple, "torch storage");
  const std::span<const Cell> id = state.items(persistent_id);
  expect_count(id, 6, 6, "torch storage");
  expect_kind(id[0], Kind::text, "torch storage");
  if (id[0].text() != "storage") corrupt("torch storage: expected 'storage', got ", excerpt(id[0].text()));
  if (!is_global(id[1], Global::storage)) corrupt("torch storage: expected its class, got ", describe(id[1]));
  expect_kind(id[2], Kind::text, "key of a torch storage");
  expect_kind(id[3], Kind::text, "place of a torch storage");
  expect_kind(id[4], Kind::integer, "size of a torch storage");
  if (id[4].integer < 0) corrupt("torch storage: expected a size, got ", id[4].integer);
  if (id[5].kind() != Kind::none) unsafe("torch storage: expected no view, got ", describe(id[5]));
  const auto count = static_cast<uint64_t>(id[4].integer);
  state.tree.types.push_back(storage_class(static_cast<uint32_t>(id[1].size)).element);
  state.storages.push_back({static_cast<uint32_t>(state.tree.types.size() - 1), count, {}});
  return Cell::make(kStorage, state.storages.size() - 1);
}

Cell torch_load_from_bytes(State& state, Interpreter& stream, Bytes blob) {
  ByteCursor cursor(blob);
  try {
    return read_stream(state, stream, cursor);
  } catch (DataError& error) {
    error.at_offset(cursor.position());
    place(error, state, blob);
    throw;
  }
}

Cell torch_rebuild_tensor(State& state, std::span<const Cell> arguments) {
  expect_count(arguments, 6, 7, "tensor");
  if (arguments[0].kind() != kStorage) corrupt("tensor: expected a storage, got ", describe(arguments[0]));
  const Storage& storage = state.storages[arguments[0].node];
  expect_kind(arguments[1], Kind::integer, "offset of a tensor");
  expect_kind(arguments[4], Kind::boolean, "requires_grad of a tensor");
  expect_no_metadata(state, arguments);
  ArrayNode array{.type = storage.type, .first_extent = static_cast<uint32_t>(state.tree.extents.size())};
  array.rank = add_extents(state, arguments[2], "size of a tensor");
  if (add_extents(state, arguments[3], "stride of a tensor") != array.rank) {
    corrupt("tensor: expected as many strides as sizes, got another number");
  }
  const auto extents = std::span(state.tree.extents).subspan(array.first_extent, 2 * size_t{array.rank});
  const auto shape = extents.first(array.rank), strides = extents.last(array.rank);
  const uint64_t item_bytes = state.tree.types[array.type].item_bytes;
  checked_mul(count_elements(shape), item_bytes, "pickle: bytes of a tensor");
  const uint64_t n = reach(shape, strides);
  const auto offset = static_cast<uint64_t>(arguments[1].integer);
  if (offset > storage.count || n > storage.count - offset) {
    corrupt("tensor: expected elements inside a storage of ", storage.count, ", got ", n, " from ",
            arguments[1].integer);
  }
  array.data = storage.data.subspan(offset * item_bytes, n * item_bytes);
  array.order = order_of(shape, strides);
  array.requires_grad = arguments[4].node != 0;
  array.filled = true;
  state.tree.arrays.push_back(array);
  return Cell::make(Kind::tensor, state.tree.arrays.size() - 1);
}

}  // namespace atompack::pickle
