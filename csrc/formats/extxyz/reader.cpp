#include "formats/extxyz/reader.h"

#include "base/error.h"
#include "formats/extxyz/value.h"

namespace atompack::extxyz {

bool Reader::read_frame(BlockBuilder& block) {
  const FrameHead* const head = heads_.next(lines_);
  if (head == nullptr) return false;
  read_atoms(lines_, *head, atoms_);
  block.begin(*head, atoms_);
  add_entries(*head, block);
  add_columns(*head, block);
  ++frame_;
  return true;
}

void Reader::add_entries(const FrameHead& head, BlockBuilder& block) {
  for (const Entry& entry : head.entries) {
    infer_value(entry, value_);
    const auto kind = kinds_.find({Level::molecule, entry.key});
    if (kind != kinds_.end() && kind->second == Kind::text && value_.kind != Kind::text) {
      value_.reset(Kind::text);
      value_.texts.emplace_back(without_mark(entry.text));
    } else if (kind != kinds_.end() && value_.kind != Kind::text) {
      value_.widen(wider(kind->second, value_.kind));
    }
    block.add(Level::molecule, entry.key, value_);
  }
}

void Reader::add_columns(const FrameHead& head, BlockBuilder& block) {
  for (size_t i = 0; i < head.layout.columns.size(); ++i) {
    if (!atoms_.is_field[i]) continue;
    const std::string& key = head.layout.columns[i].key;
    Array& rows = atoms_.columns[i];
    const auto kind = kinds_.find({Level::atom, key});
    if (kind != kinds_.end() && kind->second != Kind::text) rows.widen(wider(kind->second, rows.kind));
    block.add(Level::atom, key, rows);
  }
}

// False at the end of the file and at damage.
bool Reader::try_frame(BlockBuilder& block) {
  try {
    return read_frame(block);
  } catch (CorruptFileError& error) {
    error.in_file(name_).at_molecule(frame_);
    damage_ = std::make_exception_ptr(error);
  } catch (UnsupportedFormatError& error) {
    error.in_file(name_).at_molecule(frame_);
    damage_ = std::make_exception_ptr(error);
  }
  return false;
}

std::optional<Block> Reader::next_block(int64_t max_frames, uint64_t max_bytes) {
  BlockBuilder block(frame_);
  const uint64_t begin = bytes_read();
  while (damage_ == nullptr && try_frame(block)) {
    if (block.size() >= max_frames || bytes_read() - begin >= max_bytes || block.is_full()) break;
  }
  if (block.size() > 0) return std::move(block).finish();
  if (damage_ != nullptr) std::rethrow_exception(damage_);
  return std::nullopt;
}

}  // namespace atompack::extxyz
