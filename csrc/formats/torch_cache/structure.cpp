#include "formats/torch_cache/structure.h"

#include <algorithm>
#include <bit>
#include <span>

#include "base/excerpt.h"
#include "base/utf8.h"
#include "serial/pickle/opcodes.h"

namespace atompack::torch_cache {
namespace {

using pickle::Op;

constexpr pickle::RecordClass kClass = {"aenet.torch_training.config", "Structure"};
// Limit on what a structure may expand to beyond its own size: repeated labels, tensors with strides of 0.
constexpr pickle::Limits kLimits = {.max_bytes = uint64_t{1} << 24};
constexpr size_t kMaxNesting = 2;  // nested lists instead of arrays

[[noreturn]] void wrong(std::string_view expected, std::string_view got) {
  throw_corrupt("structure: expected ", expected, ", got ", got);
}

// Numbers of any kind as float64, with their shape.
struct Numbers {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

std::string text_of_shape(std::span<const int64_t> shape) {
  std::string text = "(";
  for (const int64_t dim : shape) text += cat(text.size() > 1 ? ", " : "", dim);
  return text + ")";
}

template <typename T>
void widen(Bytes bytes, std::vector<double>& out) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(T)) out.push_back(static_cast<double>(load_le<T>(&bytes[at])));
}

void widen_integers(const ElementType& type, Bytes bytes, std::vector<double>& out) {
  const bool is_signed = type.kind == ElementKind::signed_integer;
  switch (type.item_bytes) {
    case 1:
      return is_signed ? widen<int8_t>(bytes, out) : widen<uint8_t>(bytes, out);
    case 2:
      return is_signed ? widen<int16_t>(bytes, out) : widen<uint16_t>(bytes, out);
    case 4:
      return is_signed ? widen<int32_t>(bytes, out) : widen<uint32_t>(bytes, out);
    default:
      return is_signed ? widen<int64_t>(bytes, out) : widen<uint64_t>(bytes, out);
  }
}

void widen_all(const Array& array, std::vector<double>& out) {
  const ElementType& type = array.type;
  const auto is_of = [&](ElementKind kind, uint32_t size) { return type.kind == kind && type.item_bytes == size; };
  const bool is_integer = type.kind == ElementKind::signed_integer || type.kind == ElementKind::unsigned_integer ||
                          type.kind == ElementKind::boolean;
  const bool is_real = is_of(ElementKind::floating, 4) || is_of(ElementKind::floating, 8);
  if (type.kind == ElementKind::floating && !is_real) {
    throw UnsupportedFormatError(cat("structure: expected float32 or float64, got ", type_text(array.table, type)));
  }
  if (!is_integer && !is_real) wrong("numbers", type_text(array.table, type));
  if (is_of(ElementKind::floating, 8)) {
    out.resize(static_cast<size_t>(array.size()));
    return copy_out(array, std::as_writable_bytes(std::span(out)));
  }
  std::vector<std::byte> bytes(array.bytes());
  copy_out(array, bytes);
  is_integer ? widen_integers(type, bytes, out) : widen<float>(bytes, out);
}

double read_number(const Value& value) {
  switch (value.kind()) {
    case Kind::boolean:
      return value.boolean() ? 1 : 0;
    case Kind::integer:
      return static_cast<double>(value.integer());
    case Kind::real:
      return value.real();
    case Kind::big_integer:
      throw UnsupportedFormatError("structure: expected a 64-bit number, got a larger int");
    default:
      break;
  }
  if (!value.has_array()) wrong("a number", name_of(value.kind()));
  const Array array = value.array();
  if (array.size() != 1) wrong("one number", cat("an array of shape ", text_of_shape(array.shape)));
  std::vector<double> values;
  widen_all(array, values);
  return values[0];
}

bool is_list(const Value& value) { return value.kind() == Kind::list || value.kind() == Kind::tuple; }

// Rows given as lists; all must have the same shape.
void read_list(const Value& list, size_t depth, Numbers& out) {
  if (depth == kMaxNesting) wrong("numbers", "lists in lists in lists");
  const auto size = static_cast<int64_t>(list.size());
  if (out.shape.size() <= depth) out.shape.push_back(size);
  if (out.shape[depth] != size) wrong(cat("rows of ", out.shape[depth]), cat("one of ", size));
  for (size_t i = 0; i < list.size(); ++i) {
    const Value item = list.item(i);
    const bool has_rows = out.shape.size() > depth + 1;
    if (i > 0 && has_rows != is_list(item)) wrong("numbers or rows of them", "both");
    is_list(item) ? read_list(item, depth + 1, out) : out.values.push_back(read_number(item));
  }
}

Numbers read_numbers(const Value& value) {
  Numbers numbers;
  if (is_list(value)) {
    read_list(value, 0, numbers);
    return numbers;
  }
  if (!value.has_array()) wrong("an array", name_of(value.kind()));
  const Array array = value.array();
  numbers.shape.assign(array.shape.begin(), array.shape.end());
  widen_all(array, numbers.values);
  return numbers;
}

std::vector<double> read_numbers_of(const Value& value, std::initializer_list<int64_t> shape) {
  Numbers numbers = read_numbers(value);
  if (!std::ranges::equal(numbers.shape, shape)) {
    wrong(cat("shape ", text_of_shape({shape.begin(), shape.size()})), text_of_shape(numbers.shape));
  }
  return std::move(numbers.values);
}

std::vector<double> read_positions(const Value& value) {
  Numbers numbers = read_numbers(value);
  if (numbers.shape.size() != 2 || numbers.shape[1] != 3) wrong("shape (N, 3)", text_of_shape(numbers.shape));
  return std::move(numbers.values);
}

// NumPy strings: UTF-32 or bytes, padded with NUL.
std::string read_item(const ElementType& type, Bytes item) {
  std::string text;
  if (type.kind == ElementKind::byte_string) {
    text = as_text(item);
    text.resize(text.find_last_not_of('\0') + 1);
    return text;
  }
  while (item.size() >= 4 && load_le<uint32_t>(&item[item.size() - 4]) == 0) item = item.first(item.size() - 4);
  for (size_t at = 0; at < item.size(); at += 4) {
    const auto code = load_le<uint32_t>(&item[at]);
    if (code > 0x10FFFF) wrong("characters", cat("number ", code));
    append_utf8(code, text);
  }
  return text;
}

std::vector<std::string> read_items(const Array& array) {
  const ElementType& type = array.type;
  if (type.kind != ElementKind::text && type.kind != ElementKind::byte_string) {
    wrong("text", type_text(array.table, type));
  }
  std::vector<std::byte> bytes(array.bytes());
  copy_out(array, bytes);
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < array.size(); ++i) {
    texts.push_back(read_item(type, Bytes(bytes).subspan(i * type.item_bytes, type.item_bytes)));
  }
  return texts;
}

std::string read_text(const Value& value) {
  if (value.kind() == Kind::text) return std::string(value.text());
  if (value.kind() == Kind::scalar) return read_items(value.array())[0];
  wrong("str", name_of(value.kind()));
}

// Entries that aenet read from files store each label as a NumPy scalar; others are lists, tuples or arrays.
std::vector<std::string> read_labels(const Value& value, size_t n_atoms) {
  const auto expect_size = [&](size_t size) {
    if (size != n_atoms) wrong(cat(n_atoms, " labels"), cat(size));
  };
  if (value.kind() == Kind::array) {
    const Array array = value.array();
    if (array.shape.size() != 1) wrong("labels of shape (N)", text_of_shape(array.shape));
    expect_size(array.size());
    if (array.type.kind != ElementKind::object) return read_items(array);
  } else if (!is_list(value)) {
    wrong("a list of labels", name_of(value.kind()));
  }
  expect_size(value.size());
  std::vector<std::string> labels;
  for (size_t i = 0; i < n_atoms; ++i) labels.push_back(read_text(value.item(i)));
  return labels;
}

template <size_t kSize, typename T>
std::array<T, kSize> to_array(const std::vector<double>& values) {
  std::array<T, kSize> array;
  std::ranges::transform(values, array.begin(), [](double value) { return static_cast<T>(value); });
  return array;
}

// Attributes of one record, with their names added to errors.
class Attributes {
 public:
  explicit Attributes(const Value& record) : record_(record) {}

  template <typename Read>
  auto required(const std::string& name, const Read& read) const {
    return at_field(name, [&] {
      const std::optional<Value> value = record_.find(name);
      if (!value) wrong("this attribute", "none");
      return read(*value);
    });
  }

  template <typename Read>
  auto optional(const std::string& name, const Read& read) const {
    return at_field(name, [&]() -> std::optional<decltype(read(record_))> {
      const std::optional<Value> value = record_.find(name);
      if (!value || value->kind() == Kind::none) return std::nullopt;
      return read(*value);
    });
  }

 private:
  const Value& record_;
};

Structure read_structure(const Value& record) {
  const Attributes attributes(record);
  Structure structure;
  structure.positions = attributes.required("positions", read_positions);
  const auto n_atoms = static_cast<int64_t>(structure.positions.size() / 3);
  structure.species = attributes.required(
      "species", [&](const Value& value) { return read_labels(value, structure.positions.size() / 3); });
  structure.energy = attributes.optional("energy", read_number);
  structure.forces =
      attributes.optional("forces", [&](const Value& value) { return read_numbers_of(value, {n_atoms, 3}); });
  structure.cell = attributes.optional(
      "cell", [](const Value& value) { return to_array<9, double>(read_numbers_of(value, {3, 3})); });
  structure.pbc =
      attributes.optional("pbc", [](const Value& value) { return to_array<3, bool>(read_numbers_of(value, {3})); });
  structure.name = attributes.optional("name", read_text);
  return structure;
}

// Builds the pickle of a structure.
class Encoder : public pickle::OpcodeStream<Encoder> {
 public:
  Encoder& text(std::string_view text) {
    return op(Op::bin_unicode8).put(static_cast<uint64_t>(text.size())).put(as_bytes(text));
  }
  Encoder& global(std::string_view module, std::string_view name) {
    return op(Op::global).put(as_bytes(module)).put('\n').put(as_bytes(name)).put('\n');
  }
  Encoder& real(double value) { return op(Op::bin_float).put(__builtin_bswap64(std::bit_cast<uint64_t>(value))); }

  // numpy.ndarray over a bytearray: the array is writable, as torch requires.
  Encoder& array(std::initializer_list<int64_t> shape, std::string_view type, Bytes data) {
    return array_head(shape, type, data.size()).put(data).op(Op::tuple).op(Op::reduce);
  }
  // All before the data, after which come kArrayEnd bytes.
  Encoder& array_head(std::initializer_list<int64_t> shape, std::string_view type, uint64_t n_bytes) {
    global("numpy", "ndarray").op(Op::mark).op(Op::mark);
    for (const int64_t dim : shape) long_integer(dim);
    return op(Op::tuple).text(type).op(Op::byte_array8).put(n_bytes);
  }
  static constexpr size_t kArrayEnd = 2;
  Encoder& labels(const auto& species) {
    op(Op::empty_list).op(Op::mark);
    for (const auto& label : species) text(label);
    return op(Op::appends);
  }
};

template <typename T, typename Write>
void put_optional(Encoder& encoder, std::string_view name, const std::optional<T>& value, const Write& write) {
  encoder.text(name);
  value ? write(*value) : void(encoder.op(Op::none));
}

void put_record_head(Encoder& encoder) {
  encoder.op(Op::proto).put(uint8_t{5}).global(kClass.module, kClass.name).op(Op::empty_tuple).op(Op::new_object);
  encoder.op(Op::empty_dict).op(Op::mark).text("positions");
}

// The part of a pickle that is still to be compared.
class Rest {
 public:
  explicit Rest(Bytes pickle) : bytes_(pickle) {}

  bool skip(size_t n) {
    if (n > bytes_.size()) return false;
    bytes_ = bytes_.subspan(n);
    return true;
  }
  bool skip(Bytes expected) {
    const bool is_there =
        bytes_.size() >= expected.size() && std::ranges::equal(bytes_.first(expected.size()), expected);
    return is_there && skip(expected.size());
  }
  // Also skips a value of this size, or None.
  bool skip_value(size_t n) { return skip(has_none() ? 1 : n); }
  bool has_none() const { return !bytes_.empty() && bytes_[0] == static_cast<std::byte>(Op::none); }

 private:
  Bytes bytes_;
};

void check_sizes(const Structure& structure) {
  const size_t n = 3 * structure.n_atoms();
  if (structure.positions.size() != n || (structure.forces && structure.forces->size() != n)) {
    throw InternalError("positions, forces and species of a structure differ in number");
  }
}

}  // namespace

StructureDecoder::StructureDecoder() : machine_(std::span(&kClass, 1), kLimits) {}

Structure StructureDecoder::decode(Bytes pickle) {
  const Value value = machine_.run(pickle);
  if (value.kind() != Kind::record) wrong("an object of class Structure", name_of(value.kind()));
  return read_structure(value);
}

Structure decode_structure(Bytes pickle) { return StructureDecoder().decode(pickle); }

bool is_own_pickle(Bytes pickle) {
  // Python puts a frame or a smaller protocol there.
  return pickle.size() > 2 && pickle[1] == std::byte{5} && pickle[2] == static_cast<std::byte>(Op::global);
}

bool holds_exactly(Bytes pickle, std::span<const double> positions, std::span<const std::string_view> species,
                   const std::optional<std::array<double, 9>>& cell) {
  const auto n_atoms = static_cast<int64_t>(species.size());
  const Bytes data = std::as_bytes(positions);
  Encoder before, array, between;
  put_record_head(before);
  array.array_head({n_atoms, 3}, "<f8", data.size());
  between.op(Op::tuple).op(Op::reduce).text("species").labels(species).text("energy");
  Rest rest(pickle);
  if (!rest.skip(before.bytes()) || !rest.skip(array.bytes()) || !rest.skip(data) || !rest.skip(between.bytes())) {
    return false;
  }
  Encoder forces_key, cell_key, cell_value;
  forces_key.text("forces");
  cell_key.text("cell");
  if (!rest.skip_value(1 + sizeof(double)) || !rest.skip(forces_key.bytes()) ||
      !rest.skip_value(array.bytes().size() + data.size() + Encoder::kArrayEnd) || !rest.skip(cell_key.bytes())) {
    return false;
  }
  if (!cell || rest.has_none()) return true;
  cell_value.array({3, 3}, "<f8", std::as_bytes(std::span(*cell)));
  return rest.skip(cell_value.bytes());
}

std::vector<std::byte> encode_structure(const Structure& structure) {
  check_sizes(structure);
  const auto n_atoms = static_cast<int64_t>(structure.n_atoms());
  Encoder encoder;
  const auto put_doubles = [&](std::initializer_list<int64_t> shape, std::span<const double> values) {
    encoder.array(shape, "<f8", std::as_bytes(values));
  };
  put_record_head(encoder);
  put_doubles({n_atoms, 3}, structure.positions);
  encoder.text("species").labels(structure.species);
  put_optional(encoder, "energy", structure.energy, [&](double energy) { encoder.real(energy); });
  put_optional(encoder, "forces", structure.forces, [&](const auto& forces) { put_doubles({n_atoms, 3}, forces); });
  put_optional(encoder, "cell", structure.cell, [&](const auto& cell) { put_doubles({3, 3}, cell); });
  put_optional(encoder, "pbc", structure.pbc,
               [&](const auto& pbc) { encoder.array({3}, "?", std::as_bytes(std::span(pbc))); });
  put_optional(encoder, "name", structure.name, [&](const std::string& name) { encoder.text(name); });
  encoder.op(Op::set_items).op(Op::build).op(Op::stop);
  return encoder.take();
}

}  // namespace atompack::torch_cache
