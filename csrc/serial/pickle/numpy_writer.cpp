// NumPy arrays, scalars and element types written by Writer.
#include "base/error.h"
#include "serial/pickle/writer.h"

namespace atompack::pickle {
namespace {

struct DtypeNumbers {
  int64_t item_bytes = -1, alignment = -1, flags = 0;
};

// Last numbers of a dtype's state, as NumPy writes them.
DtypeNumbers numbers_of(const ElementType& type) {
  switch (type.kind) {
    case ElementKind::text:
      return {type.item_bytes, 4, 8};
    case ElementKind::byte_string:
      return {type.item_bytes, 1, 0};
    case ElementKind::raw:
      return {type.item_bytes, 1, type.n_fields > 0 ? 16 : 0};
    case ElementKind::object:
      return {-1, -1, 63};
    default:
      return {};
  }
}

bool has_order(const ElementType& type) {
  switch (type.kind) {
    case ElementKind::byte_string:
    case ElementKind::raw:
    case ElementKind::object:
      return false;
    default:
      return type.item_bytes > 1;
  }
}

// The same elements with reversed axes: C order of one is Fortran order of the other.
struct Reversed {
  explicit Reversed(const Array& array)
      : shape(array.shape.rbegin(), array.shape.rend()), strides(array.strides.rbegin(), array.strides.rend()) {
    view.emplace(array);
    view->shape = shape;
    view->strides = strides;
    view->order = Order::c;
  }
  std::vector<int64_t> shape, strides;
  std::optional<Array> view;
};

// Returns a string that is unique to the type; names are preceded by their length, since they may contain any
// character. Called for every array, so it avoids streams.
std::string identity_of(const TypeTable& table, const ElementType& type, bool native) {
  std::string text = type_code(type);
  text += type.big_endian && !native ? '>' : '<';
  if (!type.unit.empty()) text.append(type.unit).append(" ").append(std::to_string(type.unit_count));
  for (const ElementField& field : table.fields.subspan(type.first_field, type.n_fields)) {
    text += cat('(', field.name.size(), ' ', field.name, field.offset, ' ');
    text += identity_of(table, table.types[field.type], native) + ')';
  }
  return text;
}

}  // namespace

// Writes the call that makes an empty array, and the front of the state that BUILD fills it with.
void Writer::begin_array(std::span<const int64_t> dims, const TypeTable& table, const ElementType& type, bool fortran) {
  global("numpy.core.multiarray", "_reconstruct");
  if (!recall("arguments")) {
    global("numpy", "ndarray");
    integer(0);
    op(Op::tuple1);
    bytes(as_bytes("b"));
    op(Op::tuple3);
    remember("arguments");
  }
  op(Op::reduce);
  op(Op::mark);
  integer(1);
  shape(dims);
  native_dtype(table, type);
  boolean(fortran);
}

void Writer::end_array() {
  op(Op::tuple);
  op(Op::build);
}

void Writer::array(const Array& array) {
  const bool fortran = array.order == Order::fortran;
  begin_array(array.shape, array.table, array.type, fortran);
  bytes_of(fortran ? *Reversed(array).view : array);
  end_array();
}

void Writer::begin_objects(std::span<const int64_t> shape, bool fortran) {
  begin_array(shape, {}, {.kind = ElementKind::object, .item_bytes = 8}, fortran);
  begin_list();
}

void Writer::end_objects() {
  end_list();
  end_array();
}

void Writer::objects(const Value& value) {
  const Array array = value.array();
  begin_objects(array.shape, array.order == Order::fortran);
  for (size_t i = 0; i < value.size(); ++i) this->value(value.item(i));
  end_objects();
}

void Writer::scalar(const Array& array) {
  global("numpy.core.multiarray", "scalar");
  native_dtype(array.table, array.type);
  bytes_of(array);
  op(Op::tuple2);
  op(Op::reduce);
}

void Writer::native_dtype(const TypeTable& table, const ElementType& type) { write_dtype(table, type, true); }

void Writer::dtype(const TypeTable& table, const ElementType& type) { write_dtype(table, type, false); }

void Writer::write_dtype(const TypeTable& table, const ElementType& type, bool native) {
  if (type.kind == ElementKind::bfloat16) throw UnsupportedFormatError("pickle: NumPy has no element type bfloat16");
  const std::string known = memo_key('d', identity_of(table, type, native));
  if (recall(known)) return;
  global("numpy", "dtype");
  text(type_code(type));
  boolean(false);
  boolean(true);
  op(Op::tuple3);
  op(Op::reduce);
  const bool is_date = !type.unit.empty();
  const DtypeNumbers numbers = numbers_of(type);
  op(Op::mark);
  integer(is_date ? 4 : 3);
  key(!has_order(type) ? "|" : type.big_endian && !native ? ">" : "<");
  none();
  fields(table, type, native);
  integer(numbers.item_bytes);
  integer(numbers.alignment);
  integer(numbers.flags);
  if (is_date) {
    none();
    begin_tuple();
    bytes(as_bytes(type.unit));
    integer(type.unit_count);
    integer(1);
    integer(1);
    end_tuple();
    op(Op::tuple2);
  }
  op(Op::tuple);
  op(Op::build);
  remember(known);
}

void Writer::fields(const TypeTable& table, const ElementType& type, bool native) {
  if (type.n_fields == 0) {
    none();
    return none();
  }
  const auto fields = table.fields.subspan(type.first_field, type.n_fields);
  begin_tuple();
  for (const ElementField& field : fields) key(field.name);
  end_tuple();
  begin_dict();
  for (const ElementField& field : fields) {
    key(field.name);
    write_dtype(table, table.types[field.type], native);
    integer(field.offset);
    op(Op::tuple2);
  }
  end_dict();
}

}  // namespace atompack::pickle
