// Values for tests, by way of a pickle.
#pragma once

#include <functional>
#include <vector>

#include "serial/pickle/machine.h"
#include "serial/pickle/writer.h"

namespace atompack::test {

// The `n` values that `write` writes.
class Pickled {
 public:
  Pickled(int n, const std::function<void(pickle::Writer&, int)>& write) {
    pickle::Writer writer(bytes_);
    writer.begin_list();
    for (int i = 0; i < n; ++i) write(writer, i);
    writer.end_list();
    writer.finish();
    const Value list = machine_.run(bytes_);
    for (size_t i = 0; i < list.size(); ++i) values_.push_back(list.item(i));
  }

  const std::vector<Value>& values() const { return values_; }

 private:
  std::vector<std::byte> bytes_;
  pickle::Machine machine_;
  std::vector<Value> values_;
};

// An array whose bytes all have the number of their element. Strides that are missing are those of C order.
inline void put_array(pickle::Writer& out, std::vector<int64_t> shape, uint32_t item_bytes = 4,
                      ElementKind kind = ElementKind::floating, std::vector<int64_t> strides = {},
                      Order order = Order::c) {
  int64_t n = 1;
  if (strides.empty()) strides.resize(shape.size(), -1);
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (strides[axis] < 0) strides[axis] = n;
    n *= shape[axis];
  }
  std::vector<std::byte> data(static_cast<size_t>(n) * item_bytes);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i / item_bytes);
  out.array({.type = {.kind = kind, .item_bytes = item_bytes},
             .order = order,
             .shape = shape,
             .strides = strides,
             .data = data});
}

// The keys of the geometry of a molecule.
inline void put_geometry(pickle::Writer& out, int64_t n_atoms, uint32_t bytes_of_positions = 4) {
  out.key("positions");
  put_array(out, {n_atoms, 3}, bytes_of_positions);
  out.key("atomic_numbers");
  put_array(out, {n_atoms}, 2, ElementKind::signed_integer);
}

}  // namespace atompack::test
