#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "file_in_memory.h"
#include "formats/extxyz/formatter.h"
#include "formats/extxyz/frame_index.h"
#include "formats/extxyz/frame_source.h"
#include "formats/extxyz/reader.h"

namespace atompack::fuzz {
namespace {

using extxyz::Array;
using extxyz::ArrayView;
using extxyz::Block;
using extxyz::BlockView;
using extxyz::Field;
using extxyz::Kind;

constexpr uint64_t kAnyBytes = uint64_t{1} << 40;

// The frames before the damage, in one block; what is said of the damage, if there is some.
struct Read {
  std::vector<Block> blocks;
  std::string damage;
};

Read read_in_blocks(const std::string& path, int64_t max_frames) {
  Read read;
  extxyz::Reader reader(path);
  try {
    while (auto block = reader.next_block(max_frames, kAnyBytes)) read.blocks.push_back(std::move(*block));
  } catch (const CorruptFileError& error) {
    read.damage = error.what();
  } catch (const UnsupportedFormatError& error) {
    read.damage = error.what();
  }
  if (!read.damage.empty()) {
    require(read.damage.starts_with(path), "an error names the file");
    require(read.damage.find("(molecule ") != std::string::npos, "an error names the frame");
  }
  return read;
}

size_t product(const std::vector<int64_t>& shape) {
  size_t n = 1;
  for (const int64_t dim : shape) n *= static_cast<size_t>(dim);
  return n;
}

void check_field(const Field& field, const Block& block) {
  require(field.present.size() == static_cast<size_t>(block.size()), "present is (B,)");
  const auto n_present = static_cast<size_t>(std::ranges::count(field.present, 1));
  require(n_present > 0, "a field is there somewhere");
  require(field.arrays.size() == (field.stacked ? 1 : n_present), "one array, or one for each frame that has it");
  auto array = field.arrays.begin();
  for (size_t i = 0; i < field.present.size() && !field.stacked; ++i) {
    if (field.present[i] == 0) continue;
    const auto rows = static_cast<size_t>(field.level == Level::atom ? block.ptr[i + 1] - block.ptr[i] : 1);
    require(array->size() == rows * product(array->shape), "an array is as long as its shape says");
    ++array;
  }
  if (!field.stacked) return;
  const size_t rows = field.level == Level::atom ? block.numbers.size() : field.present.size();
  require(field.arrays[0].size() == rows * product(field.arrays[0].shape), "a stack has a row for each");
}

void check(const Block& block) {
  const auto n = static_cast<size_t>(block.size());
  require(block.ptr.size() == n + 1 && block.ptr.front() == 0, "ptr is (B + 1,)");
  require(std::ranges::is_sorted(block.ptr), "ptr rises");
  require(block.ptr.back() == std::ssize(block.numbers), "ptr ends at the last atom");
  require(block.positions.size() == 3 * block.numbers.size(), "positions are (N, 3)");
  require(block.lattices.size() == 9 * n && block.pbc.size() == 3 * n, "each frame has a lattice and flags");
  for (const Field& field : block.fields) check_field(field, block);
}

ArrayView view_of(const Array& array) {
  const void* const data = array.kind == Kind::real      ? static_cast<const void*>(array.reals.data())
                           : array.kind == Kind::integer ? static_cast<const void*>(array.integers.data())
                                                         : static_cast<const void*>(array.flags.data());
  return {array.kind, array.shape, data, array.kind == Kind::text ? array.texts[0] : std::string_view()};
}

extxyz::FieldView view_of(const Field& field) {
  extxyz::FieldView view{field.level, field.key, field.present, field.stacked, {}};
  const bool is_text = field.stacked && field.arrays[0].kind == Kind::text;
  view.stacked = field.stacked && !is_text;
  auto array = field.arrays.begin();
  if (view.stacked) {
    view.arrays.push_back(view_of(*array));
    return view;
  }
  for (size_t i = 0; i < field.present.size(); ++i) {
    if (is_text) {
      view.arrays.push_back({Kind::text, {}, nullptr, array->texts[i]});
    } else {
      view.arrays.push_back(field.present[i] != 0 ? view_of(*array++) : ArrayView());
    }
  }
  return view;
}

// Text of atoms is not written; nine numbers are what these two keys are read as.
bool is_written(const Field& field) {
  const bool is_text = field.level == Level::atom && field.arrays[0].kind == Kind::text;
  const bool is_matrix = field.key == "stress" || field.key == "virial";
  return !is_text && !(field.level == Level::molecule && is_matrix);
}

bool same_reals(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, [](double x, double y) {
    return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y) || (std::isnan(x) && std::isnan(y));
  });
}

bool same_array(const Array& a, const Array& b) {
  return a.kind == b.kind && a.shape == b.shape && a.flags == b.flags && a.integers == b.integers &&
         same_reals(a.reals, b.reals) && a.texts == b.texts;
}

bool same_field(const Field& a, const Field& b) {
  return a.level == b.level && a.key == b.key && a.present == b.present && a.stacked == b.stacked &&
         std::ranges::equal(a.arrays, b.arrays, same_array);
}

// What was read is written, and what was written is read as the same.
void check_round_trip(Block block) {
  static const FileInMemory file;
  // Frames differ in what is text: such a column has no way out.
  for (const Field& field : block.fields) {
    const auto is_text = [](const Array& array) { return array.kind == Kind::text; };
    const bool mixed = std::ranges::any_of(field.arrays, is_text) && !std::ranges::all_of(field.arrays, is_text);
    if (field.level == Level::atom && mixed) return;
  }
  std::erase_if(block.fields, [](const Field& field) { return !is_written(field); });
  const std::vector<int64_t> numbers(block.numbers.begin(), block.numbers.end());
  const std::vector<uint8_t> all(static_cast<size_t>(block.size()), 1);
  BlockView view{block.ptr, block.positions, numbers, block.lattices, block.has_lattice, block.pbc, all, {}};
  for (const Field& field : block.fields) view.fields.push_back(view_of(field));
  const std::string text = format_block(view);
  const Read read = read_in_blocks(file.hold(std::as_bytes(std::span(text))), block.size());
  require(read.damage.empty() && read.blocks.size() == 1, "what is written can be read");
  const Block& again = read.blocks[0];
  require(again.ptr == block.ptr && again.numbers == block.numbers, "atoms survive");
  require(same_reals(again.positions, block.positions), "positions survive");
  require(same_reals(again.lattices, block.lattices) && again.pbc == block.pbc, "the cell survives");
  require(again.n_plain_comments == 0 && again.n_unnamed_words == 0, "everything has a name");
  require(std::ranges::equal(again.fields, block.fields, same_field), "fields survive");
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

// Frames read one by one are those read in order; returns their number before the first damage.
int64_t check_source(const std::string& path, const std::vector<Block>& frames) {
  extxyz::FrameScanner scanner(path, 1);
  while (scanner.advance()) continue;
  const auto index = std::make_shared<parsed::Index>(scanner.take().index);
  const parsed::Index decoded = parsed::decode_index(parsed::encode_index(*index));
  require(decoded.entries.size() == index->entries.size(), "an index survives");
  const extxyz::FrameSource source(path, path, *io::version_of(path), index, all_fields(*index),
                                   {.access = io::Access::read});
  std::vector<std::byte> scratch;
  int64_t n_sound = 0;
  for (int64_t i = 0; i < source.size(); ++i) {
    scratch.resize(static_cast<size_t>(source.extent(i).decoded_bytes));
    try {
      Counter counter;
      source.visit(i, source.decode(i, scratch), counter);
      n_sound += n_sound == i ? 1 : 0;
      require(i >= std::ssize(frames) || counter.n_atoms == std::ssize(frames[static_cast<size_t>(i)].numbers),
              "frames have the same atoms");
    } catch (const DataError&) {
      require(i >= std::ssize(frames), "a frame that can be read in order can be read alone");
    }
  }
  return n_sound;
}

}  // namespace

void read_extxyz(Bytes input) {
  static const FileInMemory file;
  const std::string& path = file.hold(input);
  Read whole = read_in_blocks(path, int64_t{1} << 40);
  const Read single = read_in_blocks(path, 1);
  int64_t n_frames = 0;
  for (const Block& block : whole.blocks) n_frames += block.size();
  require(n_frames == std::ssize(single.blocks), "blocks do not change the frames");
  require(whole.damage == single.damage, "blocks do not change the damage");
  require(check_source(path, single.blocks) >= n_frames, "frames that can be read in order can be read alone");
  for (const Block& block : single.blocks) check(block);
  for (Block& block : whole.blocks) {
    check(block);
    check_round_trip(std::move(block));
  }
}

}  // namespace atompack::fuzz
