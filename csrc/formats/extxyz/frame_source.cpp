#include "formats/extxyz/frame_source.h"

#include "base/error.h"
#include "formats/extxyz/atom_lines.h"
#include "formats/extxyz/value.h"

namespace atompack::extxyz {
namespace {

constexpr std::string_view kNull = "_JSON null";  // the value None, which is missing
constexpr uint64_t kAhead = 64 << 10;             // bytes read together, where all frames are read in order
constexpr int64_t kParsingWork = 24;              // bytes that could be copied while one byte is parsed

// Memory that a thread reuses from frame to frame.
struct FrameMemory {
  FrameHeadReader heads;
  Atoms atoms;
  Array value;
};

// Remarks about one frame.
class FrameRemarks {
 public:
  FrameRemarks(Remarks* remarks, int64_t index) : remarks_(remarks), index_(index) {}

  void add(bool holds, Remark remark, const std::string& key = {}) const {
    if (holds && remarks_ != nullptr) remarks_->add(remark, key, index_);
  }

 private:
  Remarks* remarks_;
  int64_t index_;
};

void add_columns(const FrameHead& head, Atoms& atoms, const parsed::FieldMap& fields, const FrameRemarks& remarks,
                 parsed::MoleculeBuilder& molecule) {
  size_t guess = 0;
  for (size_t i = 0; i < head.layout.columns.size(); ++i) {
    if (!atoms.is_field[i]) continue;
    const std::string& key = head.layout.columns[i].key;
    const parsed::FieldMap::Rule* const rule = fields.find(Level::atom, key, guess);
    remarks.add(atoms.columns[i].kind == Kind::text, Remark::text_of_atoms, key);
    if (rule != nullptr) molecule.add(*rule, key, atoms.columns[i]);
  }
}

void add_entries(const FrameHead& head, Array& value, const parsed::FieldMap& fields, const FrameRemarks& remarks,
                 parsed::MoleculeBuilder& molecule) {
  size_t guess = 0;
  for (const Entry& entry : head.entries) {
    const parsed::FieldMap::Rule* const rule = fields.find(Level::molecule, entry.key, guess);
    if (rule == nullptr) throw CorruptFileError("expected a key of the index, got another").at_field(entry.key);
    if (rule->form == parsed::FieldMap::Form::left_out) continue;
    infer_value(entry, value);
    if (rule->kind == Kind::text && value.kind != Kind::text) {
      value.reset(Kind::text);
      value.texts.emplace_back(without_mark(entry.text));
    }
    const bool is_null = value.kind == Kind::text && entry.text == kNull;
    const bool is_label = rule->form == parsed::FieldMap::Form::label;
    remarks.add(is_null, Remark::none, entry.key);
    remarks.add(is_label && value.shape.size() == 1 && value.shape[0] == 6, Remark::six_numbers, entry.key);
    if (!is_null || rule->kind != Kind::text) molecule.add(*rule, entry.key, value);
  }
}

}  // namespace

FrameSource::FrameSource(const io::Location& location, const std::string& name, const io::FileVersion& version,
                         std::shared_ptr<const parsed::Index> index, std::shared_ptr<const parsed::FieldMap> fields,
                         const FrameOptions& options)
    : IndexedSource(name, std::move(index), std::move(fields), kParsingWork), remarks_(options.remarks) {
  const auto file = parsed::open_unchanged(location, version, name);
  file_ = file->bytes(version.size, options.access, options.populate);
}

Bytes FrameSource::parse(int64_t index, std::span<std::byte> scratch) const {
  thread_local FrameMemory memory;
  const uint64_t offset = entry(index).place;
  thread_local io::RangeBuffer buffer;
  const Bytes text = file_->bytes(offset, entry(index).bytes, buffer, remarks_ != nullptr ? kAhead : 0);
  LineReader lines(text, offset);
  const FrameHead* const head = memory.heads.next(lines);
  if (head == nullptr || static_cast<uint64_t>(head->n_atoms) != entry(index).n_atoms) {
    throw CorruptFileError("expected the frame of the index, got another", offset);
  }
  read_atoms(lines, *head, memory.atoms);
  parsed::MoleculeBuilder molecule(fields(), scratch, memory.atoms.positions, memory.atoms.numbers);
  if (head->lattice) molecule.set_cell(*head->lattice);
  const auto periodic = static_cast<uint8_t>(head->lattice.has_value());
  molecule.set_pbc(head->pbc.value_or(std::array<uint8_t, 3>{periodic, periodic, periodic}));
  const FrameRemarks remarks(remarks_.get(), index);
  remarks.add(head->comment_is_plain, Remark::plain_comment);
  remarks.add(memory.atoms.has_unnamed_words, Remark::unnamed_words);
  add_columns(*head, memory.atoms, fields(), remarks, molecule);
  add_entries(*head, memory.value, fields(), remarks, molecule);
  return molecule.finish();
}

}  // namespace atompack::extxyz
