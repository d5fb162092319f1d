// Index of the frames of a file: one pass over the comment lines that skips atom lines.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "formats/extxyz/line_reader.h"
#include "formats/parsed/index.h"

namespace atompack::extxyz {

// A frame whose comment line is still to be parsed.
struct FoundFrame {
  uint64_t offset;
  int64_t n_atoms;
  uint64_t comment_offset;
  size_t comment_end;  // in the text of the group
};

// Consecutive frames. The memory is reused from group to group.
struct FrameGroup {
  std::string comments;
  std::vector<FoundFrame> frames;
};

// Finds all frames up to the first damage in the number of lines; reading the frames finds all other damage. Not
// thread-safe.
class FrameScanner {
 public:
  // Comment lines are parsed on up to `n_threads` threads.
  FrameScanner(const std::string& path, unsigned n_threads);

  // Scans a few megabytes; false at the end of the file, or at damage.
  bool advance();
  uint64_t bytes_read() const { return lines_.next_offset(); }
  uint64_t file_bytes() const { return lines_.file_bytes(); }
  // Returns what was found, once; places are offsets in the file. If `strict`, throws the error of the first comment
  // line that cannot be read, else the damage that ended the scan; the latter also if nothing can be read. Errors name
  // the file `name`.
  parsed::Index finish(const std::string& name, bool strict);
  // Throws the damage that ended the scan, if there is some, as that of the molecule after `n_molecules`.
  void check(const std::string& name, size_t n_molecules) const;

 private:
  bool fill_group();
  void parse_group();
  void end_entry(uint64_t next);

  io::FileVersion version_;  // from before the lines are read
  LineReader lines_;
  unsigned n_threads_;
  parsed::Index index_;
  FrameGroup group_;
  bool is_done_ = false;
  std::exception_ptr found_damage_;  // after the frames of the group
  std::exception_ptr damage_;        // the error that ended the scan
  bool is_refused_ = false;          // the frames before it cannot be read either
  std::exception_ptr fault_;         // of the first comment line that cannot be read
  size_t fault_number_ = 0;
};

}  // namespace atompack::extxyz
