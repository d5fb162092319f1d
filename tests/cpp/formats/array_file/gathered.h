// Slices of columns in plain memory, and the slow and obvious way to read the same: array by array.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "formats/array_file/read/column_slice.h"
#include "formats/array_file/read/reader.h"
#include "model/column_source.h"

namespace atompack::test {

// Raw items of numbers back to back, or texts.
struct Values {
  std::vector<std::byte> numbers;
  std::vector<std::string> strings;
  bool operator==(const Values&) const = default;
};

struct GatheredRow {
  bool is_present = false;
  ColumnType type;
  std::vector<uint64_t> shape;
  Values values;
  bool operator==(const GatheredRow&) const = default;
};

// All rows back to back; with `in_place` blocks may be decoded into them.
class Gatherer final : public ColumnVisitor {
 public:
  Gatherer(const ColumnSlice& slice, bool in_place) : in_place_(in_place) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < slice.n_rows(); ++i) {
      Place& place = places_.emplace_back();
      GatheredRow& row = rows_.emplace_back();
      row.is_present = slice.is_present(i);
      if (!row.is_present) continue;
      row.type = slice.type(i);
      row.shape.assign(slice.shape(i).begin(), slice.shape(i).end());
      const uint64_t n = array_file::Box{row.shape, row.shape}.n_elements();
      place.begin = bytes;
      if (row.type.kind != ColumnKind::numeric) {
        row.values.strings.resize(n);
        continue;
      }
      place.item = item_bytes(row.type.dtype);
      place.bytes = n * place.item;
      bytes += place.bytes;
    }
    memory_.assign(bytes, std::byte{0xA5});  // what nobody writes differs from what should be there
  }

  std::byte* place(size_t row, uint64_t first, uint64_t) override {
    return in_place_ ? memory_.data() + places_[row].begin + first * places_[row].item : nullptr;
  }
  void values(size_t row, uint64_t first, Bytes values) override { put(row, first, values); }
  void fill(size_t row, Bytes item) override {
    for (uint64_t i = 0; i < places_[row].bytes / places_[row].item; ++i) put(row, i, item);
  }
  void text(size_t row, uint64_t element, Bytes text) override {
    rows_[row].values.strings.at(element) = std::string(as_text(text));
  }

  std::vector<GatheredRow> rows() && {
    for (size_t i = 0; i < rows_.size(); ++i) {
      const Bytes numbers = Bytes(memory_).subspan(places_[i].begin, places_[i].bytes);
      rows_[i].values.numbers.assign(numbers.begin(), numbers.end());
    }
    return std::move(rows_);
  }

 private:
  struct Place {
    uint64_t begin = 0, bytes = 0, item = 0;
  };

  void put(size_t row, uint64_t first, Bytes values) {
    const Place& place = places_[row];
    const std::span<std::byte> room = std::span(memory_).subspan(place.begin, place.bytes);
    store(room.subspan(first * place.item).first(values.size()).data(), values);
  }

  bool in_place_;
  std::vector<Place> places_;
  std::vector<GatheredRow> rows_;
  std::vector<std::byte> memory_;
};

// `backwards`: the units in a different order.
inline std::vector<GatheredRow> gather(const ColumnSlice& slice, bool in_place, bool backwards = false) {
  Gatherer gatherer(slice, in_place);
  slice.fill(gatherer);
  const size_t n = slice.n_units();
  for (size_t i = 0; i < n; ++i) slice.read(backwards ? n - 1 - i : i, gatherer);
  return std::move(gatherer).rows();
}

// The part of an array that a request means.
inline array_file::Box clamped(const std::vector<uint64_t>& shape, const SliceRequest& request) {
  array_file::Box box{std::vector<uint64_t>(shape.size(), 0), shape};
  for (size_t i = 0; i < shape.size(); ++i) {
    if (request.start) box.start[i] = std::min(request.start->at(i), shape[i]);
    box.count[i] = shape[i] - box.start[i];
    if (request.count) box.count[i] = std::min(request.count->at(i), box.count[i]);
  }
  return box;
}

// One array by itself: an absent row where there is none.
inline GatheredRow read_alone(const array_file::Layers& layers, std::string_view name, const SliceRequest& request) {
  if (name.data() == nullptr) return {};
  const array_file::Array array = layers.array(name);
  const array_file::Box box = clamped(array.shape, request);
  GatheredRow row{true, array_file::column_type(array.type), box.count, {}};
  array_file::DecodedBlock last;
  if (row.type.kind == ColumnKind::numeric) {
    row.values.numbers.resize(box.n_elements() * item_bytes(row.type.dtype));
    read_numbers(layers, array, box, row.values.numbers, last);
  } else {
    row.values.strings.resize(box.n_elements());
    read_strings(layers, array, box, row.values.strings, last);
  }
  return row;
}

}  // namespace atompack::test
