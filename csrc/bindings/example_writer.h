// Writer of Python objects as pickles of plain data.
#pragma once

#include <pybind11/pybind11.h>

#include <span>
#include <string>

#include "model/value.h"
#include "serial/pickle/writer.h"

namespace atompack::bindings {

// Writes values of the types that a reader accepts by default; refuses all others, including subclasses.
class ExampleWriter {
 public:
  // With `tensors_as_arrays`, tensors become arrays of NumPy.
  ExampleWriter(pickle::Writer& out, bool tensors_as_arrays) : out_(out), tensors_as_arrays_(tensors_as_arrays) {}

  // Raises TypeError with the path of a value that cannot be written; `out` then holds part of the example.
  void write(pybind11::handle example);

 private:
  void put(pybind11::handle value);
  void put_int(pybind11::handle value);
  void put_string(pybind11::handle value, bool is_key);
  void put_items(pybind11::handle sequence, Py_ssize_t (*size)(PyObject*), PyObject* (*item)(PyObject*, Py_ssize_t));
  void put_dict(pybind11::handle dict);
  void put_array(pybind11::handle array, bool is_scalar);
  void put_objects(pybind11::handle array);
  void put_tensor(pybind11::handle tensor);

  pickle::Writer& out_;
  bool tensors_as_arrays_;
  int depth_ = 0;
};

}  // namespace atompack::bindings
