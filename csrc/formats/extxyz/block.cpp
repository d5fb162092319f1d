#include "formats/extxyz/block.h"

#include <algorithm>
#include <limits>

namespace atompack::extxyz {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <typename T>
void append(const std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

// Calls `act` with the vectors of this kind.
template <typename First, typename Second, typename Act>
void with_values(Kind kind, First& first, Second& second, const Act& act) {
  switch (kind) {
    case Kind::null:  // extended XYZ has none
      return;
    case Kind::flag:
      return act(first.flags, second.flags);
    case Kind::integer:
      return act(first.integers, second.integers);
    case Kind::real:
      return act(first.reals, second.reals);
    case Kind::text:
      return act(first.texts, second.texts);
  }
}

template <typename T>
T absent() {
  if constexpr (std::is_same_v<T, double>) return kNaN;
  return T();
}

}  // namespace

void FieldBuilder::add(int64_t frame, const Array& rows) {
  if (runs_.empty() || runs_.back().kind != rows.kind || runs_.back().shape != rows.shape) {
    runs_.push_back({frames_.size(), rows.kind, rows.shape});
  }
  frames_.push_back(frame);
  sizes_.push_back(rows.size());
  with_values(rows.kind, rows, values_, [](const auto& from, auto& to) { append(from, to); });
}

// Rows for frames without the field take memory that the file does not justify: at most seven for each row with it.
bool FieldBuilder::stacks(std::span<const int64_t> ptr) const {
  if (level_ == Level::molecule) return 8 * frames_.size() >= ptr.size() - 1;
  if (runs_[0].kind == Kind::text) return false;  // a stacked string is one string per row
  int64_t with = 0;
  for (const int64_t frame : frames_) with += ptr[static_cast<size_t>(frame) + 1] - ptr[static_cast<size_t>(frame)];
  return 8 * with >= ptr.back();
}

Field FieldBuilder::finish(std::span<const int64_t> ptr) && {
  Field field{level_, key_, std::vector<uint8_t>(ptr.size() - 1), runs_.size() == 1 && stacks(ptr), {}};
  for (const int64_t frame : frames_) field.present[static_cast<size_t>(frame)] = 1;
  if (field.stacked) {
    field.arrays.push_back(std::move(*this).stack(ptr));
  } else {
    field.arrays = split();
  }
  return field;
}

Array FieldBuilder::stack(std::span<const int64_t> ptr) && {
  const size_t n_frames = ptr.size() - 1, row = product(runs_[0].shape);
  values_.kind = runs_[0].kind;
  values_.shape = runs_[0].shape;
  if (frames_.size() == n_frames) return std::move(values_);
  Array all;
  all.kind = values_.kind;
  all.shape = values_.shape;
  with_values(values_.kind, values_, all, [&](auto& from, auto& to) {
    const auto begin_of = [&](int64_t frame) {
      return (level_ == Level::atom ? static_cast<size_t>(ptr[static_cast<size_t>(frame)])
                                    : static_cast<size_t>(frame)) *
             row;
    };
    to.resize(begin_of(static_cast<int64_t>(n_frames)), absent<typename std::decay_t<decltype(to)>::value_type>());
    size_t at = 0;
    for (size_t part = 0; part < frames_.size(); at += sizes_[part++]) {
      const auto source = from.begin() + static_cast<std::ptrdiff_t>(at);
      std::move(source, source + static_cast<std::ptrdiff_t>(sizes_[part]),
                to.begin() + static_cast<std::ptrdiff_t>(begin_of(frames_[part])));
    }
  });
  return all;
}

std::vector<Array> FieldBuilder::split() {
  std::vector<Array> arrays(frames_.size());
  size_t at[kNumberOfKinds] = {};
  for (size_t part = 0, run = 0; part < frames_.size(); ++part) {
    if (run + 1 < runs_.size() && runs_[run + 1].first_part == part) ++run;
    Array& array = arrays[part];
    array.kind = runs_[run].kind;
    array.shape = runs_[run].shape;
    size_t& begin = at[static_cast<size_t>(array.kind)];
    with_values(array.kind, values_, array, [&](const auto& from, auto& to) {
      const auto source = from.begin() + static_cast<std::ptrdiff_t>(begin);
      to.assign(source, source + static_cast<std::ptrdiff_t>(sizes_[part]));
    });
    begin += sizes_[part];
  }
  return arrays;
}

BlockBuilder::BlockBuilder(int64_t first_frame) { block_.first_frame = first_frame; }

void BlockBuilder::begin(const FrameHead& head, const Atoms& atoms) {
  append(atoms.positions, block_.positions);
  append(atoms.numbers, block_.numbers);
  block_.ptr.push_back(static_cast<int64_t>(block_.numbers.size()));
  block_.has_lattice.push_back(head.lattice ? 1 : 0);
  std::array<double, 9> no_lattice;
  no_lattice.fill(kNaN);
  std::ranges::copy(head.lattice.value_or(no_lattice), std::back_inserter(block_.lattices));
  const uint8_t periodic = head.lattice ? 1 : 0;
  std::ranges::copy(head.pbc.value_or(std::array{periodic, periodic, periodic}), std::back_inserter(block_.pbc));
  block_.n_plain_comments += head.comment_is_plain ? 1 : 0;
  block_.n_unnamed_words += atoms.has_unnamed_words ? 1 : 0;
}

void BlockBuilder::add(Level level, std::string_view key, const Array& rows) {
  const auto [place, fresh] = places_.try_emplace({level, std::string(key)}, fields_.size());
  if (fresh) fields_.emplace_back(level, std::string(key));
  fields_[place->second].add(size() - 1, rows);
}

bool BlockBuilder::is_full() const {
  constexpr size_t kMaxCells = 1 << 20;
  return fields_.size() * block_.has_lattice.size() >= kMaxCells;
}

Block BlockBuilder::finish() && {
  for (FieldBuilder& field : fields_) block_.fields.push_back(std::move(field).finish(block_.ptr));
  return std::move(block_);
}

}  // namespace atompack::extxyz
