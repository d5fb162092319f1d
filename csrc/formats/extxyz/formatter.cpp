#include "formats/extxyz/formatter.h"

#include <algorithm>

#include "formats/extxyz/comment_line.h"
#include "formats/extxyz/number.h"
#include "formats/extxyz/value.h"
#include "model/element.h"

namespace atompack::extxyz {
namespace {

// Sequence of numbers with a current position.
class Values {
 public:
  explicit Values(const ArrayView& array, size_t first = 0) : kind_(array.kind), data_(array.data), at_(first) {}

  // In an atom line the column determines the kind.
  void append_word(std::string& text) {
    if (kind_ == Kind::real) {
      append_real(static_cast<const double*>(data_)[at_++], text);
    } else {
      append_marked_word(text);
    }
  }

  void append_marked_word(std::string& text) {
    if (kind_ == Kind::real) {
      append_marked_real(static_cast<const double*>(data_)[at_++], text);
    } else if (kind_ == Kind::integer) {
      append_integer(static_cast<const int64_t*>(data_)[at_++], text);
    } else {
      text += static_cast<const uint8_t*>(data_)[at_++] != 0 ? 'T' : 'F';
    }
  }

  void append_json(std::span<const int64_t> shape, std::string& text) {
    if (shape.empty()) return append_json_number(text);
    text += '[';
    for (int64_t i = 0; i < shape[0]; ++i) {
      if (i > 0) text += ", ";
      append_json(shape.subspan(1), text);
    }
    text += ']';
  }

 private:
  void append_json_number(std::string& text) {
    const size_t begin = text.size();
    append_marked_word(text);
    const std::string_view word = std::string_view(text).substr(begin);
    if (word == "nan") text.replace(begin, std::string::npos, "NaN");
    if (word == "inf") text.replace(begin, std::string::npos, "Infinity");
    if (word == "-inf") text.replace(begin, std::string::npos, "-Infinity");
    if (word == "T") text.replace(begin, std::string::npos, "true");
    if (word == "F") text.replace(begin, std::string::npos, "false");
  }

  Kind kind_;
  const void* data_;
  size_t at_;
};

void append_words(Values values, size_t n, std::string& text) {
  for (size_t i = 0; i < n; ++i) {
    if (i > 0) text += ' ';
    values.append_marked_word(text);
  }
}

// ASE reads these, and only these, in Fortran order.
bool is_transposed(std::string_view key) { return key == "stress" || key == "virial"; }

void append_transposed(Values values, std::string& text) {
  std::array<std::string, 9> words;
  for (std::string& word : words) values.append_marked_word(word);
  for (size_t i = 0; i < 9; ++i) {
    if (i > 0) text += ' ';
    text += words[3 * (i % 3) + i / 3];
  }
}

constexpr char letter_of(Kind kind) {
  if (kind == Kind::flag) return 'L';
  if (kind == Kind::integer) return 'I';
  return kind == Kind::real ? 'R' : 'S';
}

// Writes the frames of a block one after the other.
class BlockFormatter {
 public:
  explicit BlockFormatter(const BlockView& block) : block_(block) {}

  std::string format() && {
    for (frame_ = 0; frame_ + 1 < block_.ptr.size(); ++frame_) append_frame();
    return std::move(text_);
  }

 private:
  void append_frame() {
    begin_ = static_cast<size_t>(block_.ptr[frame_]);
    end_ = static_cast<size_t>(block_.ptr[frame_ + 1]);
    // Numbers above the last element have no symbol.
    with_numbers_ = std::any_of(block_.numbers.begin() + static_cast<std::ptrdiff_t>(begin_),
                                block_.numbers.begin() + static_cast<std::ptrdiff_t>(end_),
                                [](int64_t number) { return number > kLastElement; });
    append_integer(static_cast<int64_t>(end_ - begin_), text_);
    text_ += '\n';
    append_comment();
    text_ += '\n';
    append_atoms();
  }

  const ArrayView* view(const FieldView& field) const {
    if (field.present[frame_] == 0) return nullptr;
    return &field.arrays[field.stacked ? 0 : frame_];
  }

  // Positioned at the frame's first row in the array.
  Values values(const FieldView& field, const ArrayView& array) const {
    if (!field.stacked) return Values(array);
    return Values(array, (field.level == Level::atom ? begin_ : frame_) * product(array.shape));
  }

  void append_comment() {
    if (block_.has_lattice[frame_] != 0) {
      text_ += "Lattice=\"";
      append_words(Values({Kind::real, {}, block_.lattices.data(), {}}, 9 * frame_), 9, text_);
      text_ += "\" ";
    }
    append_properties();
    for (const FieldView& field : block_.fields) {
      if (field.level == Level::molecule) append_entry(field);
    }
    if (block_.has_pbc[frame_] != 0) {
      text_ += " pbc=\"";
      append_words(Values({Kind::flag, {}, block_.pbc.data(), {}}, 3 * frame_), 3, text_);
      text_ += '"';
    }
  }

  void append_properties() {
    std::string columns = "species:S:1:pos:R:3";
    if (with_numbers_) columns += ":Z:I:1";
    columns_.clear();
    for (const FieldView& field : block_.fields) {
      const ArrayView* const array = field.level == Level::atom ? view(field) : nullptr;
      if (array == nullptr) continue;
      const size_t width = product(array->shape);
      columns += ':' + field.key + ':' + letter_of(array->kind) + ':';
      append_integer(static_cast<int64_t>(width), columns);
      columns_.emplace_back(values(field, *array), width);
    }
    text_ += "Properties=";
    append_quoted(columns, text_);
  }

  void append_entry(const FieldView& field) {
    const ArrayView* const array = view(field);
    if (array == nullptr) return;
    text_ += ' ';
    append_quoted(field.key, text_);
    text_ += '=';
    if (array->kind == Kind::text) return append_text_value(field.key, array->text, text_);
    const std::vector<int64_t>& shape = array->shape;
    if (shape.empty()) return values(field, *array).append_marked_word(text_);
    text_ += '"';
    if (is_transposed(field.key) && shape == std::vector<int64_t>{3, 3}) {
      append_transposed(values(field, *array), text_);
    } else if (shape.size() == 1 && shape[0] > 1) {
      append_words(values(field, *array), static_cast<size_t>(shape[0]), text_);
    } else {
      text_ += kJsonMark;
      values(field, *array).append_json(shape, text_);
    }
    text_ += '"';
  }

  void append_atoms() {
    Values positions({Kind::real, {}, block_.positions.data(), {}}, 3 * begin_);
    for (size_t atom = begin_; atom < end_; ++atom) {
      const int64_t number = block_.numbers[atom];
      text_ += symbol_of(number > kLastElement ? 0 : static_cast<uint8_t>(number));
      append_row(positions, 3);
      if (with_numbers_) {
        text_ += ' ';
        append_integer(number, text_);
      }
      for (auto& [column, width] : columns_) append_row(column, width);
      text_ += '\n';
    }
  }

  void append_row(Values& values, size_t width) {
    for (size_t i = 0; i < width; ++i) {
      text_ += ' ';
      values.append_word(text_);
    }
  }

  const BlockView& block_;
  std::string text_;
  size_t frame_ = 0, begin_ = 0, end_ = 0;  // current frame and its range of atoms
  bool with_numbers_ = false;
  std::vector<std::pair<Values, size_t>> columns_;  // columns of the current frame, with their widths
};

}  // namespace

std::string format_block(const BlockView& block) { return BlockFormatter(block).format(); }

}  // namespace atompack::extxyz
