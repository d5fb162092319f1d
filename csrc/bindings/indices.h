// Selections of items by Python objects: indices or masks in lists, ranges, arrays and tensors of any kind.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/tensor_caster.h"

namespace atompack::bindings {

// Throws InternalError unless the selection of a subset is contiguous int64 on the CPU.
void check_selection(const at::Tensor& selection);

// Items of a source that belong to a dataset: all of them, or those of a subset (contiguous int64, kept alive by the
// caller). `item` is the name of an item in error messages.
class SubsetView {
 public:
  SubsetView(int64_t size, const std::optional<at::Tensor>& selection, std::string item);

  // Returns the indices in the source of selected items. `selected` holds integers of any width, where negative ones
  // count from the end, or a mask of one bool per item. Raises IndexError for integers out of range and masks of
  // another length, TypeError for everything else.
  std::vector<int64_t> numbers(const pybind11::object& selected) const;
  int64_t number(pybind11::handle item) const;

 private:
  using Numbers = std::vector<int64_t>;

  int64_t in_source(int64_t place) const { return numbers_ == nullptr ? place : numbers_[place]; }
  int64_t checked(int64_t index) const;
  int64_t checked_long(PyObject* number) const;
  [[noreturn]] void refuse_number(const std::string& number) const;
  void check_mask(int64_t length) const;

  template <typename Integer>
  void add_numbers(const Integer* first, int64_t n, Numbers& all) const;
  void add_mask(const bool* first, int64_t n, Numbers& all) const;
  void add_integers(const at::Tensor& tensor, Numbers& all) const;

  Numbers of_tensor(const at::Tensor& tensor) const;
  Numbers of_array(const pybind11::object& array) const;
  Numbers of_sequence(pybind11::handle sequence) const;

  int64_t size_;
  const int64_t* numbers_ = nullptr;
  std::string item_;
};

}  // namespace atompack::bindings
