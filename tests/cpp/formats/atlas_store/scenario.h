// A store that is written in several flushes, in which all happens that can happen to its files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/atlas_store/writer.h"

namespace atompack::test {

using atlas_store::Writer;

// Calls up to and with a flush or a compaction, each of which can be made again if it failed.
using Round = std::vector<std::function<void(Writer&)>>;

inline void put(Writer& writer, const std::string& dataset, const std::string& array, uint64_t start,
                const std::vector<int32_t>& values) {
  writer.write(dataset, array, {{start}, {values.size()}}, std::as_bytes(std::span(values)));
}

inline void put(Writer& writer, const std::string& dataset, const std::string& array,
                const std::vector<std::string_view>& texts) {
  writer.write(dataset, array, {{0}, {texts.size()}}, texts);
}

inline array_file::ArrayDefinition numbers(const std::string& name, uint64_t n) {
  return {.name = name,
          .type = array_file::Type::int32,
          .shape = {n},
          .dimension_names = {"x"},
          .chunk_shape = {4},
          .fill = int64_t{-1}};
}

inline array_file::ArrayDefinition texts(const std::string& name, uint64_t n) {
  return {.name = name,
          .type = array_file::Type::string,
          .shape = {n},
          .dimension_names = {"x"},
          .chunk_shape = {},
          .fill = {}};
}

inline std::vector<Round> rounds() {
  const auto flush = [](Writer& writer) { writer.flush(); };
  return {
      {[](Writer& w) { w.create_dataset("a"); }, [](Writer& w) { w.create_dataset("b"); },
       [](Writer& w) { w.define_array("a", numbers("t", 6)); }, [](Writer& w) { w.define_array("b", numbers("t", 3)); },
       [](Writer& w) { w.define_array("a", texts("u", 2)); }, [](Writer& w) { w.define_array("b", texts("u", 2)); },
       [](Writer& w) { put(w, "a", "t", 0, {1, 2, 3, 4, 5, 6}); }, [](Writer& w) { put(w, "b", "t", 0, {7, 8, 9}); },
       [](Writer& w) { put(w, "a", "u", {"one", "two"}); }, [](Writer& w) { put(w, "b", "u", {"three", "four"}); },
       flush},
      {[](Writer& w) { w.create_dataset("c"); }, [](Writer& w) { w.define_array("c", numbers("new", 2)); },
       [](Writer& w) { put(w, "c", "new", 0, {10, 11}); }, [](Writer& w) { put(w, "a", "t", 1, {20, 30}); },
       [](Writer& w) { w.delete_array("b", "u"); }, [](Writer& w) { w.set_attribute("c", "k", std::string_view("v")); },
       flush},
      // Values alone: the metadata stays as it is.
      {[](Writer& w) { put(w, "a", "t", 5, {60}); }, [](Writer& w) { put(w, "a", "u", {"uno", "dos"}); }, flush},
      {[](Writer& w) { w.set_attribute("b", "k", int64_t{5}); }, flush},
      {[](Writer& w) { w.delete_dataset("a"); }, [](Writer& w) { w.create_dataset("a"); },
       [](Writer& w) { w.define_array("a", numbers("t", 6)); }, [](Writer& w) { put(w, "a", "t", 4, {50}); },
       [](Writer& w) { w.define_array("b", texts("u", 1)); }, flush},
      {[](Writer& w) { put(w, "b", "t", 2, {99}); }, [](Writer& w) { w.compact(); }},
      {[](Writer& w) { put(w, "b", "t", 0, {77}); }, flush},
  };
}

}  // namespace atompack::test
