#include "serial/pickle/writer.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "serial/pickle/torch_calls.h"

namespace atompack::pickle {

std::string Writer::memo_key(char kind, std::string_view what) {
  std::string name(1, kind);
  name += what;
  return name;
}

Writer::Writer(std::vector<std::byte>& out) : out_(out) {
  constexpr uint8_t kProtocol = 4;
  op(Op::proto).put(kProtocol);
}

void Writer::none() { op(Op::none); }

void Writer::boolean(bool value) { op(value ? Op::new_true : Op::new_false); }

void Writer::integer(int64_t value) {
  if (value >= 0 && value <= UINT8_MAX) {
    op(Op::bin_int1).put(static_cast<uint8_t>(value));
  } else if (value >= 0 && value <= UINT16_MAX) {
    op(Op::bin_int2).put(static_cast<uint16_t>(value));
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    op(Op::bin_int).put(static_cast<int32_t>(value));
  } else {
    big_integer(std::as_bytes(std::span(&value, 1)));
  }
}

void Writer::big_integer(Bytes bytes) {
  const auto repeats_sign = [&](size_t n) {
    const auto last = static_cast<uint8_t>(bytes[n - 1]), before = static_cast<uint8_t>(bytes[n - 2]);
    return last == (before >= 0x80 ? 0xFF : 0);
  };
  while (bytes.size() > 1 && repeats_sign(bytes.size())) bytes = bytes.first(bytes.size() - 1);
  if (bytes.size() <= UINT8_MAX) {
    op(Op::long1).put(static_cast<uint8_t>(bytes.size()));
  } else if (bytes.size() <= INT32_MAX) {
    op(Op::long4).put(static_cast<int32_t>(bytes.size()));
  } else {
    throw UnsupportedFormatError(cat("pickle: int: expected at most ", INT32_MAX, " bytes, got ", bytes.size()));
  }
  put(bytes);
}

void Writer::real(double value) { op(Op::bin_float).put(__builtin_bswap64(std::bit_cast<uint64_t>(value))); }

Writer& Writer::put_size(Op short_form, Op long_form, Op huge_form, uint64_t size) {
  if (size <= UINT8_MAX) return op(short_form).put(static_cast<uint8_t>(size));
  if (size <= UINT32_MAX) return op(long_form).put(static_cast<uint32_t>(size));
  return op(huge_form).put(size);
}

void Writer::text(std::string_view text) {
  put_size(Op::short_bin_unicode, Op::bin_unicode, Op::bin_unicode8, text.size()).put(as_bytes(text));
}

void Writer::bytes(Bytes bytes) {
  put_size(Op::short_bin_bytes, Op::bin_bytes, Op::bin_bytes8, bytes.size()).put(bytes);
}

bool Writer::recall(std::string_view what) {
  const auto found = memo_.find(what);
  if (found == memo_.end()) return false;
  if (found->second <= UINT8_MAX) {
    op(Op::bin_get).put(static_cast<uint8_t>(found->second));
  } else {
    op(Op::long_bin_get).put(found->second);
  }
  return true;
}

void Writer::remember(std::string_view what) {
  op(Op::memoize);
  memo_.emplace(what, n_remembered_++);
}

void Writer::key(std::string_view key) {
  const std::string known = memo_key('t', key);
  if (recall(known)) return;
  text(key);
  remember(known);
}

void Writer::global(std::string_view module, std::string_view name) {
  const std::string known = memo_key('g', module) + '\n' + std::string(name);
  if (recall(known)) return;
  key(module);
  key(name);
  op(Op::stack_global);
  remember(known);
}

void Writer::begin_list() { op(Op::empty_list).op(Op::mark); }

void Writer::end_list() { op(Op::appends); }

void Writer::begin_tuple() { op(Op::mark); }

void Writer::end_tuple() { op(Op::tuple); }

void Writer::begin_dict() { op(Op::empty_dict).op(Op::mark); }

void Writer::end_dict() { op(Op::set_items); }

void Writer::shape(std::span<const int64_t> shape) {
  constexpr Op kTuples[] = {Op::empty_tuple, Op::tuple1, Op::tuple2, Op::tuple3};
  const bool is_short = shape.size() < std::size(kTuples);
  if (!is_short) op(Op::mark);
  for (const int64_t dim : shape) integer(dim);
  op(is_short ? kTuples[shape.size()] : Op::tuple);
}

void Writer::bytes_of(const Array& array) {
  put_size(Op::short_bin_bytes, Op::bin_bytes, Op::bin_bytes8, array.bytes());
  const size_t at = out_.size();
  out_.resize(at + array.bytes());
  copy_out(array, std::span(out_).subspan(at));
}

void Writer::tensor(const Array& array) {
  global("torch._utils", "_rebuild_tensor_v2");
  op(Op::mark);
  global("torch.storage", "_load_from_bytes");
  bytes(encode_storage(array));
  op(Op::tuple1).op(Op::reduce);
  integer(0);
  shape(array.shape);
  std::vector<int64_t> strides(array.shape.size());
  int64_t stride = 1;
  for (size_t axis = strides.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= std::max<int64_t>(array.shape[axis], 1);
  }
  shape(strides);
  boolean(array.requires_grad);
  global("collections", "OrderedDict");
  op(Op::empty_tuple).op(Op::reduce);
  op(Op::tuple).op(Op::reduce);
}

void Writer::value(const Value& value) {
  switch (value.kind()) {
    case Kind::none:
      return none();
    case Kind::boolean:
      return boolean(value.boolean());
    case Kind::integer:
      return integer(value.integer());
    case Kind::big_integer:
      return big_integer(value.big_integer());
    case Kind::real:
      return real(value.real());
    case Kind::text:
      return text(value.text());
    case Kind::bytes:
      return bytes(value.bytes());
    case Kind::list:
      begin_list();
      for (size_t i = 0; i < value.size(); ++i) this->value(value.item(i));
      return end_list();
    case Kind::tuple:
      begin_tuple();
      for (size_t i = 0; i < value.size(); ++i) this->value(value.item(i));
      return end_tuple();
    case Kind::dict:
      begin_dict();
      for (size_t i = 0; i < value.size(); ++i) {
        value.key(i).kind() == Kind::text ? key(value.key(i).text()) : this->value(value.key(i));
        this->value(value.value(i));
      }
      return end_dict();
    case Kind::array: {
      const Array array = value.array();
      return array.type.kind == ElementKind::object ? objects(value) : this->array(array);
    }
    case Kind::scalar:
      return scalar(value.array());
    case Kind::tensor:
      return tensor(value.array());
    case Kind::dtype:
      return dtype(value.table(), value.dtype());
    case Kind::record:
      break;
  }
  throw UnsupportedFormatError(cat("pickle: expected plain data, got an object of ", value.class_name()));
}

void Writer::pickled(Bytes pickle) {
  global("pickle", "loads");
  bytes(pickle);
  op(Op::tuple1).op(Op::reduce);
}

void Writer::finish() { op(Op::stop); }

void Writer::return_to(const Place& place) {
  out_.resize(place.bytes);
  std::erase_if(memo_, [&](const auto& known) { return known.second >= place.n_remembered; });
  n_remembered_ = place.n_remembered;
}

// NumPy arrays, scalars and element types written by Writer.

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
  dtype(table, type, true);
  boolean(fortran);
}

void Writer::end_array() { op(Op::tuple).op(Op::build); }

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
  dtype(array.table, array.type, true);
  bytes_of(array);
  op(Op::tuple2).op(Op::reduce);
}

void Writer::dtype(const TypeTable& table, const ElementType& type, bool native) {
  if (type.kind == ElementKind::bfloat16) throw UnsupportedFormatError("pickle: NumPy has no element type bfloat16");
  const std::string known = memo_key('d', identity_of(table, type, native));
  if (recall(known)) return;
  global("numpy", "dtype");
  text(type_code(type));
  boolean(false);
  boolean(true);
  op(Op::tuple3).op(Op::reduce);
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
  op(Op::tuple).op(Op::build);
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
    dtype(table, table.types[field.type], native);
    integer(field.offset);
    op(Op::tuple2);
  }
  end_dict();
}

}  // namespace atompack::pickle
