// Arrays in plain memory, and writers and readers of files to hold against them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "formats/array_file/gathered.h"
#include "formats/array_file/read/reader.h"
#include "formats/array_file/write/writer.h"

namespace atompack::test {

using array_file::ArrayDefinition;
using array_file::Box;
using array_file::Type;

inline Values random_values(Type type, uint64_t n, std::minstd_rand& random) {
  Values values;
  if (!array_file::holds_strings(type)) {
    values.numbers.resize(n * array_file::item_bytes(type));
    for (std::byte& byte : values.numbers) byte = static_cast<std::byte>(random() >> 8);
    return values;
  }
  for (uint64_t i = 0; i < n; ++i) values.strings.emplace_back(random() % 30, static_cast<char>('a' + random() % 26));
  return values;
}

// Not empty, of an array that is not.
inline Box random_box(const std::vector<uint64_t>& shape, std::minstd_rand& random) {
  Box box{shape, shape};
  for (size_t i = 0; i < shape.size(); ++i) {
    box.start[i] = random() % shape[i];
    box.count[i] = 1 + random() % (shape[i] - box.start[i]);
  }
  return box;
}

inline Box whole_of(const ArrayDefinition& array) {
  return {std::vector<uint64_t>(array.shape.size(), 0), array.shape};
}

inline void write(array_file::Writer& writer, const std::string& name, const Box& box, const Values& values) {
  if (values.strings.empty()) return writer.write(name, box, Bytes(values.numbers));
  const std::vector<std::string_view> views(values.strings.begin(), values.strings.end());
  writer.write(name, box, views);
}

// `read(box, out)` of a reader or a writer.
template <typename Read>
Values read_values(const ArrayDefinition& array, const Box& box, const Read& read) {
  Values values;
  if (array_file::holds_strings(array.type)) {
    values.strings.resize(box.n_elements());
    read(box, std::span(values.strings));
  } else {
    values.numbers.resize(box.n_elements() * array_file::item_bytes(array.type));
    read(box, std::span(values.numbers));
  }
  return values;
}

inline Values read_file(const std::string& path, const std::string& name) {
  const array_file::Reader reader(path);
  const array_file::Array array = reader.array(name);
  array_file::DecodedBlock last;
  return read_values(array_file::definition_of(array), array.whole(),
                     [&](const Box& box, auto out) { reader.read(array, box, out, last); });
}

inline Values read_pending(array_file::Writer& writer, const std::string& name) {
  const ArrayDefinition array = writer.definition(name);
  return read_values(array, whole_of(array), [&](const Box& box, auto out) { writer.read(name, box, out); });
}

// One array as it should be.
class Model {
 public:
  explicit Model(ArrayDefinition array) : array_(std::move(array)) {
    const uint64_t n = whole_of(array_).n_elements();
    if (array_file::holds_strings(array_.type)) {
      values_.strings.resize(n);
      return;
    }
    const auto fill = array_file::fill_item(array_.type, array_file::view(array_.fill));
    for (uint64_t i = 0; i < n; ++i) {
      values_.numbers.insert(values_.numbers.end(), fill.begin(), fill.begin() + static_cast<long>(item()));
    }
  }

  const ArrayDefinition& array() const { return array_; }
  const Values& values() const { return values_; }

  void write(const Box& box, const Values& values) {
    array_file::for_each_common_run(box, whole_of(array_), [&](uint64_t from, uint64_t to, uint64_t n) {
      if (array_file::holds_strings(array_.type)) {
        std::copy_n(values.strings.begin() + static_cast<long>(from), n,
                    values_.strings.begin() + static_cast<long>(to));
      } else {
        std::copy_n(values.numbers.begin() + static_cast<long>(from * item()), n * item(),
                    values_.numbers.begin() + static_cast<long>(to * item()));
      }
    });
  }

 private:
  uint64_t item() const { return array_file::item_bytes(array_.type); }

  ArrayDefinition array_;
  Values values_;
};

using Models = std::map<std::string, Model>;

// That a new reader finds these arrays and no others.
inline void expect_file(const std::string& path, const Models& models) {
  const array_file::Reader reader(path);
  EXPECT_EQ(reader.names().size(), models.size());
  for (const auto& [name, model] : models) {
    ASSERT_TRUE(reader.contains(name)) << name;
    EXPECT_EQ(read_file(path, name), model.values()) << name;
  }
}

template <typename T>
Values numbers(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {{bytes.begin(), bytes.end()}, {}};
}

}  // namespace atompack::test
