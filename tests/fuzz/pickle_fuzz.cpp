#include <vector>

#include "base/utf8.h"
#include "serial/pickle/machine.h"
#include "serial/pickle/writer.h"
#include "targets.h"

namespace atompack::fuzz {
namespace {

// The limits hold at any size; small ones are reached sooner.
constexpr pickle::Limits kLimits = {.max_depth = 32, .max_values = 1 << 14, .max_bytes = 1 << 16};

void look_at(const Value& value);

void look_at_array(const Value& value) {
  const Array array = value.array();
  require(array.shape.size() == array.strides.size(), "each dimension has a stride");
  require(!type_text(array.table, array.type).empty(), "a type has a name");
  if (array.type.kind == ElementKind::object) {
    require(value.size() == array.size(), "an object array has an object for each element");
    for (size_t i = 0; i < value.size(); ++i) look_at(value.item(i));
    return;
  }
  std::vector<std::byte> bytes(array.bytes());
  copy_out(array, bytes);
}

void look_at(const Value& value) {
  switch (value.kind()) {
    case Kind::text:
      return require(is_utf8_or_surrogates(as_bytes(value.text())), "text is UTF-8");
    case Kind::big_integer:
      return require(value.big_integer().size() > 8, "a large int is large");
    case Kind::list:
    case Kind::tuple:
      for (size_t i = 0; i < value.size(); ++i) look_at(value.item(i));
      return;
    case Kind::dict:
      for (size_t i = 0; i < value.size(); ++i) {
        look_at(value.key(i));
        look_at(value.value(i));
      }
      return;
    case Kind::array:
    case Kind::scalar:
    case Kind::tensor:
      return look_at_array(value);
    default:
      require(value.kind() <= Kind::dtype, "a value is one");
  }
}

std::vector<std::byte> write(const Value& value) {
  std::vector<std::byte> written;
  pickle::Writer writer(written);
  writer.value(value);
  writer.finish();
  return written;
}

}  // namespace

void read_pickle(Bytes input) {
  static pickle::Machine machine({}, kLimits);
  // What is referred to twice is written twice.
  static pickle::Machine again({}, {.max_depth = 32, .max_values = 1 << 20, .max_bytes = 1 << 24});
  allowing_damage([&] {
    const Value value = machine.run(input);
    look_at(value);
    const std::vector<std::byte> written = write(value);
    require(write(again.run(written)) == written, "what is written is read back");
  });
}

}  // namespace atompack::fuzz
