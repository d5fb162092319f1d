#include <algorithm>
#include <string>
#include <vector>

#include "array_layers.h"
#include "formats/array_file/read/reader.h"
#include "targets.h"

namespace atompack::fuzz {
namespace {

using array_file::Array;
using array_file::Box;
using array_file::Layers;

// A caller decides how many elements it has room for; more of them would only be slow here.
constexpr uint64_t kMostElements = 1 << 16;

// At most as many elements as there is room for, from the middle of each axis on.
Box part_of(const Array& array) {
  Box box = array.whole();
  uint64_t room = kMostElements;
  for (size_t i = 0; i < box.start.size(); ++i) {
    box.start[i] = array.shape[i] / 3;
    box.count[i] = std::min(array.shape[i] - box.start[i], room);
    room /= std::max<uint64_t>(box.count[i], 1);
  }
  return box;
}

void read_box(const Layers& layers, const Array& array, const Box& box) {
  const uint64_t n = box.n_elements();
  require(n <= kMostElements, "no more is read than there is room for");
  array_file::DecodedBlock last;
  if (array.type == array_file::Type::string || array.type == array_file::Type::binary) {
    std::vector<std::string> values(n);
    read_strings(layers, array, box, values, last);
  } else {
    std::vector<std::byte> values(n * item_bytes(array.type));
    read_numbers(layers, array, box, values, last);
  }
}

void read_array(const Layers& layers, const std::string& name) {
  const Array array = layers.array(name);
  read_box(layers, array, part_of(array));
  if (array.n_elements() <= kMostElements) read_box(layers, array, array.whole());
}

}  // namespace

void read_array_file(Bytes input) {
  allowing_damage([&] {
    const Layers layers = array_layers(input);
    for (const std::string& name : layers.names()) allowing_damage([&] { read_array(layers, name); });
  });
}

}  // namespace atompack::fuzz
