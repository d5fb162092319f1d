#include "formats/extxyz/frame_index.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "formats/extxyz/frame_head.h"
#include "formats/extxyz/value.h"
#include "formats/parsed/record.h"
#include "threads/parallel_for_each.h"

namespace atompack::extxyz {
namespace {

constexpr size_t kGroupFrames = 4096, kGroupBytes = 8 << 20, kTaskFrames = 512;
// A reader may store a value with more dimensions than the text has.
constexpr uint64_t kMaxRanks = 18;

// A frame whose comment line is still to be parsed.
struct FoundFrame {
  uint64_t offset;
  int64_t n_atoms;
  uint64_t comment_offset;
  size_t comment_end;  // in the text of the group
};

// Consecutive frames. The memory is reused from group to group.
struct Group {
  std::string comments;
  std::vector<FoundFrame> frames;

  std::string_view comment(size_t i) const {
    const size_t begin = i == 0 ? 0 : frames[i - 1].comment_end;
    return std::string_view(comments).substr(begin, frames[i].comment_end - begin);
  }
};

// Frames of one task, in order up to the first damage.
struct ParsedFrames {
  std::vector<parsed::IndexEntry> entries;
  parsed::Survey survey;
  std::exception_ptr damage;
};

bool is_complete(const Group& group) {
  return group.frames.size() >= kGroupFrames || group.comments.size() >= kGroupBytes;
}

// False at the end of the file.
bool find_frame(LineReader& lines, Group& group) {
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
    throw CorruptFileError(cat("frame: expected ", *n_atoms, " atom lines, got fewer"), lines.file_bytes());
  }
  group.frames.push_back(frame);
  return true;
}

uint64_t bytes_of(const FrameHead& head) {
  const auto n_atoms = static_cast<uint64_t>(head.n_atoms);
  uint64_t bytes = parsed::structure_bytes(n_atoms) + parsed::field_bytes(72, 2) + parsed::field_bytes(3, 1);
  for (const ColumnSpec& column : head.layout.columns) {
    if (column.role != Role::positions) bytes += parsed::field_bytes(8 * n_atoms * static_cast<uint64_t>(column.width), 2);
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
      bytes += parsed::field_bytes(std::max<uint64_t>(8 * std::max<size_t>(value_.size(), 9), entry.text.size()), kMaxRanks);
    }
    for (const ColumnSpec& column : head.layout.columns) {
      if (column.role == Role::field) out.survey.add(Level::atom, column.key, column.kind, column.shape());
    }
    if (head.lattice && std::ranges::any_of(*head.lattice, [](double x) { return x != 0; })) out.survey.set_has_cells();
    out.entries.push_back({frame.offset, static_cast<uint64_t>(frame.n_atoms), bytes});
  }

 private:
  FrameHeadReader heads_;
  Array value_;
};

void parse_frames(const Group& group, size_t first, size_t last, ParsedFrames& out) {
  FrameParser parser;
  try {
    for (size_t i = first; i < last; ++i) parser.add(group.frames[i], group.comment(i), out);
  } catch (const DataError&) {
    out.damage = std::current_exception();
  }
}

class FrameScanner {
 public:
  FrameScanner(const std::string& path, unsigned n_threads) : lines_(path), n_threads_(n_threads) {}

  FrameScan scan() && {
    while (result_.damage == nullptr && fill_group()) parse_group();
    result_.index.end = result_.damage == nullptr ? lines_.next_offset() : end_of_last();
    result_.index.ends_open = lines_.ends_open();
    return std::move(result_);
  }

 private:
  // Finds the frames of the next group; false at the end of the file.
  bool fill_group() {
    group_.comments.clear();
    group_.frames.clear();
    try {
      while (!is_complete(group_) && find_frame(lines_, group_)) continue;
    } catch (const DataError&) {
      found_damage_ = std::current_exception();
    }
    if (group_.frames.empty()) result_.damage = found_damage_;
    return !group_.frames.empty();
  }

  void parse_group() {
    const size_t n_tasks = (group_.frames.size() + kTaskFrames - 1) / kTaskFrames;
    std::vector<ParsedFrames> parts(n_tasks);
    parallel_for_each(n_tasks, n_threads_, [&](size_t i) {
      parse_frames(group_, i * kTaskFrames, std::min((i + 1) * kTaskFrames, group_.frames.size()), parts[i]);
    });
    for (const ParsedFrames& part : parts) {
      result_.index.entries.insert(result_.index.entries.end(), part.entries.begin(), part.entries.end());
      result_.index.survey.add(part.survey);
      if (part.damage == nullptr) continue;
      result_.damage = part.damage;
      return;
    }
    result_.damage = found_damage_;
  }

  // Without another frame to tell where the last one ends, the rest of the file counts as its own.
  uint64_t end_of_last() const { return lines_.file_bytes(); }

  LineReader lines_;
  unsigned n_threads_;
  Group group_;
  std::exception_ptr found_damage_;  // after the frames of the group
  FrameScan result_;
};

}  // namespace

FrameScan scan_frames(const std::string& path, unsigned n_threads) { return FrameScanner(path, n_threads).scan(); }

}  // namespace atompack::extxyz
