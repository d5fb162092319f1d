// Selections of items by Python objects: indices or masks in lists, ranges, arrays and tensors of any kind.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <vector>

#include "plan/subset_view.h"

namespace atompack::bindings {

// Returns the numbers in the source of selected items. `selected` holds integers of any width, where negative ones
// count from the end, or a mask of one bool per item. Raises IndexError for integers out of range and masks of
// a different length, TypeError for everything else.
std::vector<int64_t> numbers_of(const plan::SubsetView& subset, const pybind11::object& selected);
int64_t number_of(const plan::SubsetView& subset, pybind11::handle item);

}  // namespace atompack::bindings
