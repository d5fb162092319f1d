// The digest that distinguishes layers.
#pragma once

#include <string>

#include "io/readable_file.h"

namespace atompack::array_file {

// SHA-256 of a layer's size (u64), its footer, and up to 64 KiB from both ends of the file: found without reading it
// whole. Throws CorruptFileError if it does not end as layers do.
std::string layer_digest(const io::ReadableFile& layer);

}  // namespace atompack::array_file
