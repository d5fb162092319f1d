// Results of native threads, waited for as Python can.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <optional>

namespace atompack::bindings {

// The oldest result of OrderedWorkers; looks for Ctrl-C from time to time.
template <typename Workers>
auto take_patiently(Workers& workers) {
  constexpr std::chrono::milliseconds kPatience{50};
  for (;;) {
    {
      const pybind11::gil_scoped_release release;
      if (auto result = workers.take(kPatience)) return std::move(*result);
    }
    if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
  }
}

}  // namespace atompack::bindings
