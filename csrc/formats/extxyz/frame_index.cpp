#include "formats/extxyz/frame_index.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "formats/extxyz/atom_lines.h"
#include "formats/extxyz/frame_head.h"
#include "formats/extxyz/value.h"
#include "formats/parsed/record.h"
#include "threads/parallel_for_each.h"

namespace atompack::extxyz {
namespace {

constexpr size_t kGroupFrames = 4096, kGroupBytes = 8 << 20, kTaskFrames = 512;
// A reader may store a value with more dimensions than the text has.
constexpr uint64_t kMaxRanks = 18;

// Frames of one task, in order.
struct ParsedFrames {
  std::vector<parsed::IndexEntry> entries;
  parsed::Survey survey;
  std::exception_ptr fault;  // of the first comment line that cannot be read
  size_t fault_at = 0;       // its frame
};

std::string_view comment_of(const FrameGroup& group, size_t i) {
  const size_t begin = i == 0 ? 0 : group.frames[i - 1].comment_end;
  return std::string_view(group.comments).substr(begin, group.frames[i].comment_end - begin);
}

bool is_complete(const FrameGroup& group) {
  return group.frames.size() >= kGroupFrames || group.comments.size() >= kGroupBytes;
}

// Reads a frame that has too few lines, to find out what is wrong with it.
[[noreturn]] void fail_short_frame(LineReader& lines, const FoundFrame& frame) {
  FrameHeadReader heads;
  Atoms atoms;
  lines.seek(frame.offset);
  const FrameHead* const head = heads.next(lines);
  const uint64_t begin = lines.next_offset();
  if (head != nullptr && static_cast<uint64_t>(head->n_atoms) > max_atom_lines(lines, head->layout)) {
    throw CorruptFileError(
        cat("frame: expected ", head->n_atoms, " atom lines, got ", lines.file_bytes() - begin, " more bytes"), begin);
  }
  if (head != nullptr) read_atoms(lines, *head, atoms);
  throw CorruptFileError(cat("frame: expected ", frame.n_atoms, " atom lines, got fewer"), lines.file_bytes());
}

// False at the end of the file.
bool find_frame(LineReader& lines, FrameGroup& group) {
  const std::optional<int64_t> n_atoms = next_count(lines);
  if (!n_atoms) return false;
  FoundFrame frame{.offset = lines.line_offset(), .n_atoms = *n_atoms, .comment_offset = 0, .comment_end = 0};
  const std::optional<std::string_view> comment = lines.next();
  if (!comment) throw CorruptFileError("frame: expected a comment line, got the end of the file", lines.file_bytes());
  frame.comment_offset = lines.line_offset();
  const size_t begin = group.comments.size();
  group.comments += *comment;
  frame.comment_end = group.comments.size();
  if (!lines.skip(*n_atoms)) {
    group.comments.resize(begin);
    fail_short_frame(lines, frame);
  }
  group.frames.push_back(frame);
  return true;
}

uint64_t bytes_of(const FrameHead& head) {
  const auto n_atoms = static_cast<uint64_t>(head.n_atoms);
  uint64_t bytes = parsed::structure_bytes(n_atoms) + parsed::field_bytes(72, 2) + parsed::field_bytes(3, 1);
  for (const ColumnSpec& column : head.layout.columns) {
    if (column.role != Role::positions)
      bytes += parsed::field_bytes(8 * n_atoms * static_cast<uint64_t>(column.width), 2);
  }
  return bytes;
}

class FrameParser {
 public:
  void add(const FoundFrame& frame, std::string_view comment, ParsedFrames& out) {
    const FrameHead& head = heads_.parse(frame.n_atoms, comment, frame.comment_offset);
    uint64_t bytes = bytes_of(head);
    for (const Entry& entry : head.entries) {
      infer_value(entry, value_);
      out.survey.add(Level::molecule, entry.key, value_.kind, value_.shape);
      bytes +=
          parsed::field_bytes(std::max<uint64_t>(8 * std::max<size_t>(value_.size(), 9), entry.text.size()), kMaxRanks);
    }
    for (const ColumnSpec& column : head.layout.columns) {
      if (column.role != Role::field) continue;
      out.survey.add(Level::atom, column.key, column.kind, column.shape());
      if (column.kind == Kind::text) out.survey.leave_out(column.key);
    }
    if (head.lattice && std::ranges::any_of(*head.lattice, [](double x) { return x != 0; })) out.survey.set_has_cells();
    add_entry(frame, bytes, out);
  }

  static void add_entry(const FoundFrame& frame, uint64_t bytes, ParsedFrames& out) {
    if (!out.entries.empty()) out.entries.back().bytes = frame.offset - out.entries.back().place;
    out.entries.push_back({frame.offset, 0, static_cast<uint64_t>(frame.n_atoms), bytes});
  }

 private:
  FrameHeadReader heads_;
  Array value_;
};

void parse_frames(const FrameGroup& group, size_t first, size_t last, ParsedFrames& out) {
  FrameParser parser;
  // Too many keys are found when surveys are joined.
  for (size_t i = first; i < last && out.survey.fields().size() <= parsed::kMaxKeys; ++i) {
    const FoundFrame& frame = group.frames[i];
    try {
      parser.add(frame, comment_of(group, i), out);
    } catch (const DataError&) {
      if (out.fault == nullptr) {
        out.fault = std::current_exception();
        out.fault_at = out.entries.size();
      }
      FrameParser::add_entry(frame, parsed::structure_bytes(static_cast<uint64_t>(frame.n_atoms)), out);
    }
  }
}

// Throws an error, if there is one, as that of a molecule of a file.
void raise(const std::exception_ptr& found, const std::string& name, size_t molecule) {
  if (found == nullptr) return;
  with_context([&](DataError& error) { error.in_file(name).at_molecule(static_cast<int64_t>(molecule)); },
               [&] { std::rethrow_exception(found); });
}

}  // namespace

FrameScanner::FrameScanner(const std::string& path, unsigned n_threads)
    : version_(*io::version_of(path)), lines_(path), n_threads_(n_threads) {
  index_.stamp = {version_.size, version_.seconds, version_.nanoseconds};
}

bool FrameScanner::advance() {
  if (is_done_) return false;
  is_done_ = !fill_group();
  if (!is_done_) parse_group();
  is_done_ = is_done_ || damage_ != nullptr;
  return !is_done_;
}

// Finds the frames of the next group; false at the end of the file.
bool FrameScanner::fill_group() {
  group_.comments.clear();
  group_.frames.clear();
  if (found_damage_ == nullptr) {
    try {
      while (!is_complete(group_) && find_frame(lines_, group_)) continue;
    } catch (const DataError&) {
      found_damage_ = std::current_exception();
    }
  }
  if (group_.frames.empty()) damage_ = found_damage_;
  return !group_.frames.empty();
}

void FrameScanner::parse_group() {
  std::vector<ParsedFrames> parts((group_.frames.size() + kTaskFrames - 1) / kTaskFrames);
  threads::parallel_for_each(parts.size(), n_threads_, [&](size_t i) {
    parse_frames(group_, i * kTaskFrames, std::min((i + 1) * kTaskFrames, group_.frames.size()), parts[i]);
  });
  for (const ParsedFrames& part : parts) {
    if (!part.entries.empty()) end_entry(part.entries.front().place);
    if (fault_ == nullptr && part.fault != nullptr) {
      fault_ = part.fault;
      fault_number_ = index_.entries.size() + part.fault_at;
    }
    index_.entries.insert(index_.entries.end(), part.entries.begin(), part.entries.end());
    try {
      index_.survey.add(part.survey);
    } catch (const DataError&) {
      damage_ = std::current_exception();
      is_refused_ = true;
      return;
    }
  }
}

// Sets the length of the last entry, which reaches to the next one.
void FrameScanner::end_entry(uint64_t next) {
  if (!index_.entries.empty()) index_.entries.back().bytes = next - index_.entries.back().place;
}

parsed::Index FrameScanner::finish(const std::string& name, bool strict) {
  end_entry(lines_.next_offset());
  index_.ends_open = lines_.ends_open();
  // Wide columns that the atom lines do not have: reading the frame finds that.
  for (parsed::IndexEntry& entry : index_.entries) {
    entry.record_bytes = std::min(entry.record_bytes, parsed::max_record_bytes(entry.bytes, index_.max_ratio));
  }
  if (strict) raise(fault_, name, fault_number_);
  if (strict || is_refused_) check(name, index_.entries.size());
  return std::move(index_);
}

void FrameScanner::check(const std::string& name, size_t n_molecules) const { raise(damage_, name, n_molecules); }

}  // namespace atompack::extxyz
