// Index of the frames of a file: one pass over the comment lines that skips atom lines.
#pragma once

#include <exception>
#include <string>

#include "formats/parsed/index.h"

namespace atompack::extxyz {

struct FrameScan {
  parsed::Index index;        // places are offsets in the file
  std::exception_ptr damage;  // the error that ended the scan; nullptr: the whole file was read
};

// Finds all frames up to the first damage in a comment line or in the number of lines; reading the frames finds all
// other damage. Comment lines are parsed on up to `n_threads` threads.
FrameScan scan_frames(const std::string& path, unsigned n_threads);

}  // namespace atompack::extxyz
