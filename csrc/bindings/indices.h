// Numbers of items as Python gives them.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "bindings/tensors.h"

namespace atompack::bindings {

namespace py = pybind11;

// The items of a source that a data set shows: all of them, or those of a subset (contiguous int64, kept by the
// caller). `item` is what errors call one.
class Shown {
 public:
  Shown(int64_t size, const std::optional<at::Tensor>& selection, const char* item)
      : size_(selection ? selection->numel() : size),
        numbers_(selection ? selection->const_data_ptr<int64_t>() : nullptr),
        item_(item) {}

  // Of a sequence of integers, or of an int64 tensor. Throws IndexError, TypeError.
  std::vector<int64_t> numbers(const py::object& items) const;
  int64_t number(py::handle item) const;

 private:
  int64_t checked(int64_t index) const;

  int64_t size_;
  const int64_t* numbers_;
  const char* item_;
};

}  // namespace atompack::bindings
