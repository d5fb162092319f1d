#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "file_in_memory.h"
#include "formats/extxyz/atom_lines.h"
#include "formats/extxyz/formatter.h"
#include "formats/extxyz/frame_index.h"
#include "formats/extxyz/frame_source.h"
#include "formats/extxyz/value.h"

namespace atompack::fuzz {
namespace {

using extxyz::Array;
using extxyz::ArrayView;
using extxyz::BlockView;
using extxyz::Kind;

// One frame as its text has it.
struct Frame {
  extxyz::FrameHead head;
  extxyz::Atoms atoms;
  std::vector<Array> values;  // of the entries of the head
};

// The frames before the damage.
std::vector<Frame> read_in_order(const std::string& path) {
  std::vector<Frame> frames;
  extxyz::LineReader lines(path);
  extxyz::FrameHeadReader heads;
  try {
    while (const extxyz::FrameHead* const head = heads.next(lines)) {
      Frame frame{*head, {}, {}};
      extxyz::read_atoms(lines, *head, frame.atoms);
      for (const extxyz::Entry& entry : head->entries) extxyz::infer_value(entry, frame.values.emplace_back());
      frames.push_back(std::move(frame));
    }
  } catch (const DataError&) {
    return frames;
  }
  return frames;
}

void check(const Frame& frame) {
  const auto n = static_cast<size_t>(frame.head.n_atoms);
  require(frame.atoms.positions.size() == 3 * n && frame.atoms.numbers.size() == n, "atoms are as many as the count");
  for (size_t i = 0; i < frame.atoms.columns.size(); ++i) {
    const Array& column = frame.atoms.columns[i];
    if (!frame.atoms.is_field[i]) continue;
    require(column.size() == n * extxyz::product(column.shape), "a column has a row for each atom");
  }
  for (const Array& value : frame.values) {
    require(value.size() == extxyz::product(value.shape), "an array is as long as its shape says");
  }
}

ArrayView view_of(const Array& array) {
  const void* const data = array.kind == Kind::real      ? static_cast<const void*>(array.reals.data())
                           : array.kind == Kind::integer ? static_cast<const void*>(array.integers.data())
                                                         : static_cast<const void*>(array.flags.data());
  return {array.kind, array.shape, data, array.kind == Kind::text ? array.texts[0] : std::string_view()};
}

bool same_reals(std::span<const double> a, std::span<const double> b) {
  return std::ranges::equal(a, b, [](double x, double y) {
    return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y) || (std::isnan(x) && std::isnan(y));
  });
}

bool same_array(const Array& a, const Array& b) {
  return a.kind == b.kind && a.shape == b.shape && a.flags == b.flags && a.integers == b.integers &&
         same_reals(a.reals, b.reals) && a.texts == b.texts;
}

// Values by level and key, without strings of atoms, which are not written, and without matrices, which are written
// as nine numbers.
std::map<std::pair<Level, std::string>, const Array*> values_of(const Frame& frame) {
  std::map<std::pair<Level, std::string>, const Array*> values;
  for (size_t i = 0; i < frame.values.size(); ++i) {
    const std::string& key = frame.head.entries[i].key;
    if (key != "stress" && key != "virial") values[{Level::molecule, key}] = &frame.values[i];
  }
  for (size_t i = 0; i < frame.atoms.columns.size(); ++i) {
    const Array& column = frame.atoms.columns[i];
    if (frame.atoms.is_field[i] && column.kind != Kind::text) {
      values[{Level::atom, frame.head.layout.columns[i].key}] = &column;
    }
  }
  return values;
}

// What was read is written, and what was written is read as the same.
void check_round_trip(const Frame& frame) {
  static const FileInMemory file;
  const auto values = values_of(frame);
  const std::vector<int64_t> numbers(frame.atoms.numbers.begin(), frame.atoms.numbers.end());
  const std::array<int64_t, 2> ptr = {0, frame.head.n_atoms};
  const std::array<uint8_t, 1> has = {1}, has_lattice = {frame.head.lattice.has_value()};
  const uint8_t periodic = has_lattice[0];
  const auto lattice = frame.head.lattice.value_or(std::array<double, 9>());
  const auto pbc = frame.head.pbc.value_or(std::array<uint8_t, 3>{periodic, periodic, periodic});
  BlockView view{ptr, frame.atoms.positions, numbers, lattice, has_lattice, pbc, has, {}};
  for (const auto& [place, array] : values)
    view.fields.push_back({place.first, place.second, has, false, {view_of(*array)}});
  const std::string text = format_block(view);
  const std::vector<Frame> read = read_in_order(file.hold(std::as_bytes(std::span(text))));
  require(read.size() == 1, "what is written can be read");
  require(read[0].atoms.numbers == frame.atoms.numbers, "atoms survive");
  require(same_reals(read[0].atoms.positions, frame.atoms.positions), "positions survive");
  require(read[0].head.lattice.has_value() == frame.head.lattice.has_value(), "the cell survives");
  require(!read[0].head.lattice || same_reals(*read[0].head.lattice, lattice), "the cell survives");
  require(!read[0].head.comment_is_plain && !read[0].atoms.has_unnamed_words, "everything has a name");
  const auto again = values_of(read[0]);
  require(again.size() == values.size(), "fields survive");
  for (const auto& [place, array] : values) {
    require(again.contains(place) && same_array(*again.at(place), *array), "fields survive");
  }
}

// Counts the values of a molecule.
class Counter final : public MoleculeVisitor {
 public:
  void geometry(const Geometry& geometry) override { n_atoms = geometry.n_atoms; }
  void field(const FieldView& field, Bytes data) override {
    const auto rows = static_cast<uint64_t>(field.type.level == Level::atom ? n_atoms : 1);
    const uint64_t bytes = rows * static_cast<uint64_t>(field.row_shape.numel()) * item_bytes(field.type.dtype);
    require(field.type.kind == ValueKind::string || data.size() == bytes, "a value is as long as its shape says");
  }
  int64_t n_atoms = 0;
};

// All keys as custom properties.
std::shared_ptr<const parsed::FieldMap> all_fields(const parsed::Index& index) {
  std::vector<parsed::Target> targets;
  for (const parsed::SurveyedField& field : index.survey.fields()) {
    const Scope scope = field.level == Level::atom ? Scope::atom_property : Scope::molecule_property;
    targets.push_back({field.level, field.key, scope, field.key, field.kind, field.shape});
  }
  return std::make_shared<parsed::FieldMap>(targets, index.survey.has_cells(), parsed::Masses());
}

// Frames read by the index are those read in order.
void check_source(const std::string& path, const std::vector<Frame>& frames) {
  extxyz::FrameScanner scanner(path, 1);
  while (scanner.advance()) continue;
  std::shared_ptr<parsed::Index> index;
  try {
    index = std::make_shared<parsed::Index>(scanner.finish(path, false));
  } catch (const DataError&) {  // more keys than a file may have
    return;
  }
  const parsed::Index decoded = parsed::decode_index(parsed::encode_index(*index));
  require(decoded.entries.size() == index->entries.size(), "an index survives");
  require(index->entries.size() >= frames.size(), "a frame that can be read in order is found");
  const auto remarks = std::make_shared<extxyz::Remarks>();
  const extxyz::FrameSource source(path, path, *io::version_of(path), index, all_fields(*index),
                                   {.access = io::Access::read, .remarks = remarks});
  std::vector<std::byte> scratch;
  for (int64_t i = 0; i < source.size(); ++i) {
    scratch.resize(static_cast<size_t>(source.extent(i).decoded_bytes));
    try {
      Counter counter;
      source.visit(i, source.decode(i, scratch), counter);
      require(i >= std::ssize(frames) || counter.n_atoms == frames[static_cast<size_t>(i)].head.n_atoms,
              "frames have the same atoms");
    } catch (const DataError& error) {
      require(i >= std::ssize(frames), "a frame that can be read in order can be read alone");
      require(std::string_view(error.what()).starts_with(path), "an error names the file");
    }
  }
  for (const auto& [remark, molecules] : remarks->take()) {
    require(!molecules.empty() && molecules.back() < source.size(), "a remark names a frame");
  }
}

}  // namespace

void read_extxyz(Bytes input) {
  static const FileInMemory file;
  const std::string& path = file.hold(input);
  std::vector<Frame> frames;
  try {
    frames = read_in_order(path);
    check_source(path, frames);
  } catch (const UnsupportedFormatError&) {  // UTF-16
    require(frames.empty(), "a file is refused before it is read");
  }
  for (const Frame& frame : frames) {
    check(frame);
    check_round_trip(frame);
  }
}

}  // namespace atompack::fuzz
