// Interruptible waiting for results of native threads.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <optional>

namespace atompack::bindings {

// Removes and returns the oldest task of an OrderedPipeline; checks for Ctrl-C while waiting.
template <typename Pipeline>
auto take_interruptibly(Pipeline& pipeline) {
  constexpr std::chrono::milliseconds kPatience{50};
  for (;;) {
    {
      const pybind11::gil_scoped_release release;
      if (auto task = pipeline.take(kPatience)) return std::move(*task);
    }
    if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
  }
}

}  // namespace atompack::bindings
