// Index of the frames of a file: one pass over the comment lines that skips atom lines.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "formats/parsed/index.h"

namespace atompack::extxyz {

struct FrameScan {
  parsed::Index index;        // places are offsets in the file
  std::exception_ptr damage;  // the error that ended the scan; nullptr: the whole file was read
  bool is_refused = false;    // the frames before it cannot be read either
};

// Finds all frames up to the first damage in the number of lines; reading the frames finds all other damage. Not
// thread-safe.
class FrameScanner {
 public:
  // Comment lines are parsed on up to `n_threads` threads.
  FrameScanner(const std::string& path, unsigned n_threads);
  ~FrameScanner();

  // Scans a few megabytes; false at the end of the file, or at damage.
  bool advance();
  uint64_t bytes_read() const;
  uint64_t file_bytes() const;
  // Returns what was found, once.
  FrameScan take();
  // take() for the index alone. If `strict`, throws the error of the first comment line that cannot be read, else the
  // damage that ended the scan; the latter also if nothing can be read. Errors name the file `name`.
  parsed::Index finish(const std::string& name, bool strict);
  // Throws the damage that ended the scan, if there is some, as that of the molecule after `n_molecules`. To be called
  // after take() or finish().
  void check(const std::string& name, size_t n_molecules) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace atompack::extxyz
